//! Tests with machine code as bytes.

use super::*;

fn scanned(code: &[u8]) -> Piece {
    scan(code, 0x1000, &|_| false).unwrap()
}

#[test]
fn returns_and_jumps_out_are_distinguished_from_what_looks_like_them() {
    let found = scanned(&[
        0xb8, 0xc3, 0, 0, 0, // 0: mov eax, 0xc3, the byte of a return inside another instruction
        0x75, 0x01, // 5: jne 8
        0xc3, // 7: ret
        0xeb, 0x02, // 8: jmp 12
        0xf3, 0xc3, // 10: rep ret
        0xe9, 0x00, 0x10, 0x00, 0x00, // 12: jmp 0x2011: a tail call
        0x0f, 0x84, 0x00, 0x10, 0x00, 0x00, // 17: je 0x2017
        0xff, 0x25, 0x00, 0x10, 0x00, 0x00, // 23: jmp [rip + 0x1000]
        0xc2, 0x08, 0x00, // 29: ret 8
    ]);
    assert_eq!((found.returns, found.last), (vec![0x1007, 0x100a], vec![0x101d]));
    let out = found.out.iter().map(|jump| (jump.at, jump.to, jump.is_always));
    assert_eq!(
        out.collect::<Vec<_>>(),
        [
            (0x100c, JumpTarget::Code(0x2011), true),
            (0x1011, JumpTarget::Code(0x2017), false),
            (0x1017, JumpTarget::Slot(0x201d), true),
        ]
    );
}

#[test]
fn a_switch_is_distinguished_from_a_function_that_is_called_last() {
    let own_table = [0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff, 0xe0]; // movsxd rax, [rdx+rax*4]; add rax, rdx; jmp rax
    let through_table = [0xff, 0x24, 0xc5, 0, 0, 0, 0]; // jmp [rax*8]
    let loaded = [0x48, 0x8b, 0x04, 0xc2, 0xff, 0xe0]; // mov rax, [rdx+rax*8]; jmp rax
    let of_record = [0x48, 0x8b, 0x40, 0x40, 0xff, 0xe0]; // mov rax, [rax+64]; jmp rax
    let of_argument = [0xff, 0xe7]; // jmp rdi
    for (code, is_last) in [
        (&own_table[..], false),
        (&through_table, false),
        (&loaded, false),
        (&of_record, true),
        (&of_argument, true),
    ] {
        assert_eq!(!scanned(code).last.is_empty(), is_last, "{code:x?}");
    }
}

/// Address, condition, whether the call ends if the jump is taken, and depth.
type Jump = (u64, Option<u8>, bool, u16);

/// The jumps of the only return; `None` if it can be reached without one.
fn jumps(code: &[u8]) -> Option<Vec<Jump>> {
    let found = scanned(code);
    let [tail] = found.tails.as_slice() else {
        panic!("one return in {code:x?}")
    };
    let of = |jump: &TailJump| {
        let depth = tail.depth_at(jump.to).unwrap();
        (jump.at - 0x1000, jump.condition, jump.is_taken, depth)
    };
    tail.is_closed.then(|| tail.jumps.iter().map(of).collect())
}

#[test]
fn the_jumps_before_a_return_are_found_where_every_way_has_one() {
    let usual = [
        0x53, // 0: push rbx
        0x85, 0xff, // 1: test edi, edi
        0x78, 0x0e, // 3: js 19
        0x48, 0x83, 0xec, 0x10, // 5: sub rsp, 16
        0xff, 0xd0, // 9: call rax
        0x85, 0xc0, // 11: test eax, eax
        0x75, 0x08, // 13: jne 23
        0x48, 0x83, 0xc4, 0x10, // 15: add rsp, 16
        0x89, 0xd8, // 19: mov eax, ebx
        0x5b, // 21: pop rbx
        0xc3, // 22: ret
        0xff, 0xd0, // 23: call rax
    ];
    let expected = [(13, Some(5), false, 24), (3, Some(8), true, 8)];
    assert_eq!(jumps(&usual), Some(expected.to_vec()));
    let by_jump_alone = [0xeb, 0x01, 0xcc, 0x5b, 0xc3]; // jmp 3; int3; pop rbx; ret
    assert_eq!(jumps(&by_jump_alone), None, "int3 may go on");
    let behind_jump = [0x74, 0x02, 0xeb, 0x10, 0x5b, 0xc3]; // je 4; jmp 20; pop rbx; ret
    assert_eq!(jumps(&behind_jump), Some(vec![(0, Some(4), true, 8)]));
    for other in [
        &[0xff, 0xd0, 0x5b, 0xc3][..],                  // call rax; pop rbx; ret
        &[0xff, 0xcf, 0x75, 0xfc, 0xc3],                // dec edi; jne 0; ret: a loop
        &[0x74, 0x04, 0xff, 0xd0, 0xeb, 0xfa, 0xc3],    // je 6; call rax; jmp 0; ret: another one
        &[0x74, 0x00, 0xc9, 0xc3],                      // je 2; leave; ret
        &[0x74, 0x00, 0x48, 0x89, 0xc4, 0xc3],          // je 2; mov rsp, rax; ret
        &[0x74, 0x00, 0x89, 0x07, 0xc3],                // je 2; mov [rdi], eax; ret
        &[0xe3, 0x00, 0xc3],                            // jrcxz 2; ret
        &[0xff, 0x24, 0xc5, 0, 0, 0, 0, 0x74, 0, 0xc3], // jmp [rax*8]; je 9; ret
        &[0x90, 0xc3], // nop; ret: from the function's begin on there is no jump
    ] {
        assert!(jumps(other).is_none_or(|jumps| jumps.is_empty()), "{other:x?}");
    }
}

#[test]
fn what_is_no_instruction_is_an_error_with_its_place() {
    assert_eq!(scan(&[0x90, 0x06], 0, &|_| false), Err(1));
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
        let _ = scan(&bytes, 1 << 40, &|_| false);
    }
}
