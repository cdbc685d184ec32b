/* Marks: places of a program that tuneagent, bpftrace and perf find by name, with values that the program passes there.
 *
 *     #include "tuneagent.h"
 *     TUNEAGENT_MARK(app, step, iteration, dt);
 *
 * This header is all there is: no library, no other file. A mark is one instruction that does nothing (a nop) and a note in the
 * file, in the format of SystemTap's sys/sdt.h. The note takes no memory at run time and stays when the program is stripped.
 *
 * Up to 6 values: integers, enums, booleans, pointers, float, double. Each is put into a register, which costs a move at most. A
 * float or a double is handed over as its bits, in a rule `arg(1) as f64`. A pointer is handed over as such: what it points to is
 * up to date at the mark, for a mark is also a barrier to the compiler. (So are variables, and those read behind it are read anew.)
 *
 * The nop is one byte long on purpose. The kernel steps over it without running it (0.5 us a hit, nothing while no tool
 * probes). A nop of five bytes would be cheaper by a quarter on Linux 6.18 and destroy what a leaf function keeps below its stack
 * pointer, for the kernel makes a call of it.
 *
 * C from C11 and C++ from C++11, on ELF systems with x86-64 or aarch64 (tuneagent itself: x86-64), with GCC, by which it is
 * tested, and what takes GCC's inline assembly. Elsewhere a mark is nothing. Licence: MIT or Apache-2.0, as tuneagent. */
#ifndef TUNEAGENT_H
#define TUNEAGENT_H

#if defined(__ELF__) && defined(__GNUC__) && (defined(__x86_64__) || defined(__aarch64__))

/* A mark of a provider (the program or library, a word) and a name (the place, a word), with up to 6 values. */
#define TUNEAGENT_MARK(...) \
    TUNEAGENT_PICK_(__VA_ARGS__, TUNEAGENT_6_, TUNEAGENT_5_, TUNEAGENT_4_, TUNEAGENT_3_, TUNEAGENT_2_, TUNEAGENT_1_, \
                    TUNEAGENT_0_, TUNEAGENT_NO_NAME_, 0)(__VA_ARGS__)
#define TUNEAGENT_PICK_(provider, name, a, b, c, d, e, f, mark, ...) mark

#define TUNEAGENT_0_(p, n) TUNEAGENT_NOTE_(p, n, "", )
#define TUNEAGENT_1_(p, n, a) TUNEAGENT_NOTE_(p, n, TUNEAGENT_AT_(0), TUNEAGENT_IN_(0, a))
#define TUNEAGENT_2_(p, n, a, b) \
    TUNEAGENT_NOTE_(p, n, TUNEAGENT_AT_(0) " " TUNEAGENT_AT_(1), TUNEAGENT_IN_(0, a), TUNEAGENT_IN_(1, b))
#define TUNEAGENT_3_(p, n, a, b, c) \
    TUNEAGENT_NOTE_(p, n, TUNEAGENT_AT_(0) " " TUNEAGENT_AT_(1) " " TUNEAGENT_AT_(2), TUNEAGENT_IN_(0, a), \
                    TUNEAGENT_IN_(1, b), TUNEAGENT_IN_(2, c))
#define TUNEAGENT_4_(p, n, a, b, c, d) \
    TUNEAGENT_NOTE_(p, n, TUNEAGENT_AT_(0) " " TUNEAGENT_AT_(1) " " TUNEAGENT_AT_(2) " " TUNEAGENT_AT_(3), \
                    TUNEAGENT_IN_(0, a), TUNEAGENT_IN_(1, b), TUNEAGENT_IN_(2, c), TUNEAGENT_IN_(3, d))
#define TUNEAGENT_5_(p, n, a, b, c, d, e) \
    TUNEAGENT_NOTE_(p, n, \
                    TUNEAGENT_AT_(0) " " TUNEAGENT_AT_(1) " " TUNEAGENT_AT_(2) " " TUNEAGENT_AT_(3) " " TUNEAGENT_AT_(4), \
                    TUNEAGENT_IN_(0, a), TUNEAGENT_IN_(1, b), TUNEAGENT_IN_(2, c), TUNEAGENT_IN_(3, d), \
                    TUNEAGENT_IN_(4, e))
#define TUNEAGENT_6_(p, n, a, b, c, d, e, f) \
    TUNEAGENT_NOTE_(p, n, \
                    TUNEAGENT_AT_(0) " " TUNEAGENT_AT_(1) " " TUNEAGENT_AT_(2) " " TUNEAGENT_AT_(3) " " TUNEAGENT_AT_(4) \
                    " " TUNEAGENT_AT_(5), \
                    TUNEAGENT_IN_(0, a), TUNEAGENT_IN_(1, b), TUNEAGENT_IN_(2, c), TUNEAGENT_IN_(3, d), \
                    TUNEAGENT_IN_(4, e), TUNEAGENT_IN_(5, f))

/* `-4@%rax`: its size, less than 0 for a signed one, and its register. */
#define TUNEAGENT_AT_(i) "%c[size" #i "]@%[value" #i "]"
#define TUNEAGENT_IN_(i, x) [size##i] "i"(TUNEAGENT_SIZE_(x)), [value##i] "r"(TUNEAGENT_BITS_(x))

#ifdef __cplusplus
namespace tuneagent_mark {
template <class T, bool is_enum = __is_enum(T)> struct is_signed { static const bool value = T(-1) < T(1); };
template <class T> struct is_signed<T, true> { static const bool value = is_signed<__underlying_type(T)>::value; };
template <class T> struct is_signed<T *, false> { static const bool value = false; };
template <> struct is_signed<bool, false> { static const bool value = false; };
template <> struct is_signed<float, false> { static const bool value = false; };
template <> struct is_signed<double, false> { static const bool value = false; };
/* By value, so that an array is a pointer; never called. The size of what it returns is the size and the sign, plus 16. */
template <class T> char (&size(T))[16 + (is_signed<T>::value ? -1 : 1) * int(sizeof(T))];
template <class T> inline __attribute__((always_inline)) unsigned long bits(T value)
{
    static_assert(sizeof(T) <= 8, "a mark takes values of up to 8 bytes; hand over a pointer");
    unsigned long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return bits;
}
} // namespace tuneagent_mark
#define TUNEAGENT_SIZE_(x) (int(sizeof(::tuneagent_mark::size(x))) - 16)
#define TUNEAGENT_BITS_(x) ::tuneagent_mark::bits(x)
#else
/* The comma makes a pointer of an array, and drops `const`. */
#define TUNEAGENT_TYPE_(x) __typeof__(((void)0, (x)))
#define TUNEAGENT_SIZE_(x) \
    ((int)sizeof(TUNEAGENT_TYPE_(x)) * _Generic((x), signed char: -1, short: -1, int: -1, long: -1, long long: -1, \
                                                char: (char)-1 < 0 ? -1 : 1, default: 1))
#define TUNEAGENT_BITS_(x) \
    __extension__({ \
        TUNEAGENT_TYPE_(x) tuneagent_value_ = (x); \
        unsigned long tuneagent_bits_ = 0; \
        _Static_assert(sizeof tuneagent_value_ <= 8, "a mark takes values of up to 8 bytes; hand over a pointer"); \
        __builtin_memcpy(&tuneagent_bits_, &tuneagent_value_, sizeof tuneagent_value_); \
        tuneagent_bits_; \
    })
#endif

/* The nop, and the note: where it is, where the base is (by which tools notice that a file was moved after it was linked), no
 * semaphore, who, what, with what. "?" puts the note into the group of the code around it, so that both are dropped together. */
#define TUNEAGENT_NOTE_(provider, name, arguments, ...) \
    __asm__ __volatile__("990: nop\n" \
                         ".pushsection .note.stapsdt,\"?\",\"note\"\n" \
                         ".balign 4\n" \
                         ".4byte 992f-991f, 994f-993f, 3\n" \
                         "991: .asciz \"stapsdt\"\n" \
                         "992: .balign 4\n" \
                         "993: .8byte 990b\n" \
                         ".8byte _.stapsdt.base\n" \
                         ".8byte 0\n" \
                         ".asciz \"" #provider "\"\n" \
                         ".asciz \"" #name "\"\n" \
                         ".asciz \"" arguments "\"\n" \
                         "994: .balign 4\n" \
                         ".popsection\n" \
                         ".ifndef _.stapsdt.base\n" \
                         ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
                         ".weak _.stapsdt.base\n" \
                         ".hidden _.stapsdt.base\n" \
                         "_.stapsdt.base: .space 1\n" \
                         ".size _.stapsdt.base, 1\n" \
                         ".popsection\n" \
                         ".endif\n" \
                         : \
                         : __VA_ARGS__ \
                         : "memory")

#else
#define TUNEAGENT_MARK(...) ((void)0)
#endif

#endif
