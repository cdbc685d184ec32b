//! Code that runs before a function's body, or before it returns, and then continues with the original.

use iced_x86::IcedError;
use iced_x86::code_asm::{AsmRegister64, AsmRegisterXmm, CodeAssembler, CodeLabel, qword_ptr};
use plan::{Expression, Operator, ValueType};

use super::assemble::{Passed, call, restore, save};
use super::code::{Displaced, NotMovable, relocate};
use crate::address::Address;

/// What a trampoline does.
#[derive(Debug)]
pub(crate) enum Work<'a> {
    /// Nothing but the jump.
    Nothing,
    /// Calls a function; all state is restored afterwards.
    Call {
        function: Address,
        passed: &'a Passed,
        extended_bytes: usize,
    },
    /// Changes the value of an argument.
    Argument {
        parameter: Parameter,
        expression: &'a Expression,
    },
}

/// The register of a parameter at its function's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// Its index among the parameters of its kind, integer or floating-point.
    pub(crate) register: usize,
    pub(crate) value_type: ValueType,
}

/// How it continues afterwards.
#[derive(Debug)]
pub(crate) enum Continuation<'a> {
    /// With the instructions that made room for the jump to the trampoline.
    Displaced(&'a Displaced),
    Enter(Address),
    /// Returns to the caller.
    Return,
}

/// The code, to run at `at`.
pub(crate) fn assemble(work: &Work<'_>, then: &Continuation<'_>, at: Address) -> Result<Vec<u8>, NotMovable> {
    let mut a = CodeAssembler::new(64)?;
    match work {
        Work::Nothing => {}
        Work::Call {
            function,
            passed,
            extended_bytes,
        } => {
            save(&mut a, *extended_bytes)
                .and_then(|()| call(&mut a, *function, passed))
                .and_then(|()| restore(&mut a))?;
        }
        Work::Argument {
            parameter,
            expression,
        } => argument(&mut a, *parameter, expression)?,
    }
    match then {
        Continuation::Enter(function) => enter(&mut a, *function)?,
        Continuation::Return => a.ret()?,
        Continuation::Displaced(_) => {}
    }
    let mut code = match a.instructions().is_empty() {
        true => Vec::new(),
        false => a.assemble(at.0)?,
    };
    if let Continuation::Displaced(displaced) = then {
        code.extend(relocate(displaced, Address(at.0 + code.len() as u64))?);
    }
    Ok(code)
}

/// A jump to any address that changes no register.
fn enter(a: &mut CodeAssembler, function: Address) -> Result<(), IcedError> {
    let mut place = a.create_label();
    a.jmp(qword_ptr(place))?;
    a.set_label(&mut place)?;
    a.dq(&[function.0])
}

fn argument(a: &mut CodeAssembler, parameter: Parameter, expression: &Expression) -> Result<(), IcedError> {
    use iced_x86::code_asm::registers::gpr64::*;
    use iced_x86::code_asm::registers::xmm::*;
    match parameter.value_type {
        ValueType::F32 | ValueType::F64 => {
            let floats = [xmm0, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7];
            float_argument(
                a,
                floats[parameter.register % floats.len()],
                parameter.value_type,
                expression,
            )
        }
        of => {
            let integers = [rdi, rsi, rdx, rcx, r8, r9];
            integer_argument(a, integers[parameter.register % integers.len()], of, expression)
        }
    }
}

/// The original is in r11, the result in rax; rax, rdx, r10 and rbp are restored.
fn integer_argument(
    a: &mut CodeAssembler,
    register: AsmRegister64,
    of: ValueType,
    expression: &Expression,
) -> Result<(), IcedError> {
    use iced_x86::code_asm::registers::gpr64::*;
    for saved in [rax, rdx, r10, rbp] {
        a.push(saved)?;
    }
    a.mov(rbp, rsp)?;
    a.mov(rax, register)?;
    extend(a, of)?;
    a.mov(r11, rax)?;
    let signed = matches!(
        of,
        ValueType::I8 | ValueType::I16 | ValueType::I32 | ValueType::I64
    );
    let mut by_zero = a.create_label();
    let mut done = a.create_label();
    integer(a, expression, signed, by_zero)?;
    a.jmp(done)?;
    // A division by zero leaves the argument unchanged.
    a.set_label(&mut by_zero)?;
    a.mov(rax, r11)?;
    a.set_label(&mut done)?;
    extend(a, of)?;
    a.mov(r11, rax)?;
    a.mov(rsp, rbp)?;
    for saved in [rbp, r10, rdx, rax] {
        a.pop(saved)?;
    }
    a.mov(register, r11)
}

/// Extends the value of type `of` in rax to 64 bits.
fn extend(a: &mut CodeAssembler, of: ValueType) -> Result<(), IcedError> {
    use iced_x86::code_asm::registers::{gpr8::al, gpr16::ax, gpr32::eax, gpr64::rax};
    match of {
        ValueType::I8 => a.movsx(rax, al),
        ValueType::I16 => a.movsx(rax, ax),
        ValueType::I32 => a.movsxd(rax, eax),
        ValueType::U8 | ValueType::Bool => a.movzx(eax, al),
        ValueType::U16 => a.movzx(eax, ax),
        ValueType::U32 => a.mov(eax, eax),
        ValueType::I64 | ValueType::U64 | ValueType::F32 | ValueType::F64 => Ok(()),
    }
}

fn integer(
    a: &mut CodeAssembler,
    expression: &Expression,
    signed: bool,
    by_zero: CodeLabel,
) -> Result<(), IcedError> {
    use iced_x86::code_asm::registers::gpr64::*;
    let (operator, left, right) = match expression {
        Expression::Integer(number) => return a.mov(rax, *number),
        Expression::Float(number) => return a.mov(rax, *number as i64),
        Expression::Original => return a.mov(rax, r11),
        Expression::Both(operator, left, right) => (operator, left, right),
    };
    integer(a, left, signed, by_zero)?;
    a.push(rax)?;
    integer(a, right, signed, by_zero)?;
    a.mov(r10, rax)?;
    a.pop(rax)?;
    match (operator, signed) {
        (Operator::Add, _) => a.add(rax, r10),
        (Operator::Subtract, _) => a.sub(rax, r10),
        (Operator::Multiply, _) => a.imul_2(rax, r10),
        (Operator::Divide, _) => divide(a, signed, by_zero),
        (Operator::Min, true) => a.cmp(rax, r10).and_then(|()| a.cmovg(rax, r10)),
        (Operator::Min, false) => a.cmp(rax, r10).and_then(|()| a.cmova(rax, r10)),
        (Operator::Max, true) => a.cmp(rax, r10).and_then(|()| a.cmovl(rax, r10)),
        (Operator::Max, false) => a.cmp(rax, r10).and_then(|()| a.cmovb(rax, r10)),
    }
}

/// rax / r10. The two divisions at which the instruction would fault are handled separately.
fn divide(a: &mut CodeAssembler, signed: bool, by_zero: CodeLabel) -> Result<(), IcedError> {
    use iced_x86::code_asm::registers::gpr32::edx;
    use iced_x86::code_asm::registers::gpr64::*;
    a.test(r10, r10)?;
    a.je(by_zero)?;
    if !signed {
        a.xor(edx, edx)?;
        return a.div(r10);
    }
    let mut ordinary = a.create_label();
    let mut done = a.create_label();
    a.cmp(r10, -1)?;
    a.jne(ordinary)?;
    a.neg(rax)?;
    a.jmp(done)?;
    a.set_label(&mut ordinary)?;
    a.cqo()?;
    a.idiv(r10)?;
    a.set_label(&mut done)?;
    a.nop()
}

/// The original is in xmm15, the result in xmm8: no argument is passed there, and a function may change them.
fn float_argument(
    a: &mut CodeAssembler,
    register: AsmRegisterXmm,
    of: ValueType,
    expression: &Expression,
) -> Result<(), IcedError> {
    use iced_x86::code_asm::registers::xmm::*;
    match of {
        ValueType::F32 => a.cvtss2sd(xmm15, register)?,
        _ => a.movsd_2(xmm15, register)?,
    }
    float(a, expression)?;
    match of {
        ValueType::F32 => a.cvtsd2ss(register, xmm8),
        _ => a.movsd_2(register, xmm8),
    }
}

fn float(a: &mut CodeAssembler, expression: &Expression) -> Result<(), IcedError> {
    use iced_x86::code_asm::registers::gpr64::{r11, rsp};
    use iced_x86::code_asm::registers::xmm::*;
    let constant = |a: &mut CodeAssembler, number: f64| {
        a.mov(r11, number.to_bits())?;
        a.movq(xmm8, r11)
    };
    let (operator, left, right) = match expression {
        Expression::Integer(number) => return constant(a, *number as f64),
        Expression::Float(number) => return constant(a, *number),
        Expression::Original => return a.movsd_2(xmm8, xmm15),
        Expression::Both(operator, left, right) => (operator, left, right),
    };
    float(a, left)?;
    a.lea(rsp, qword_ptr(rsp - 8))?;
    a.movq(qword_ptr(rsp), xmm8)?;
    float(a, right)?;
    a.movsd_2(xmm9, xmm8)?;
    a.movq(xmm8, qword_ptr(rsp))?;
    a.lea(rsp, qword_ptr(rsp + 8))?;
    match operator {
        Operator::Add => a.addsd(xmm8, xmm9),
        Operator::Subtract => a.subsd(xmm8, xmm9),
        Operator::Multiply => a.mulsd(xmm8, xmm9),
        Operator::Divide => a.divsd(xmm8, xmm9),
        Operator::Min => a.minsd(xmm8, xmm9),
        Operator::Max => a.maxsd(xmm8, xmm9),
    }
}
