//! Computes captures from raw reads, without allocation for captures that are a read or its multiple.

use syntax::ast::Operator;

use crate::eval::Context;
use crate::rule::CheckedProbe;
use crate::term::{Term, Typed};
use crate::value::{Cell, HitRead, Reads, Scalar, finite, number};

#[derive(Clone, Debug)]
pub(super) struct Captures {
    names: Vec<String>,
    makes: Vec<CaptureSource>,
    /// Each capture depends only on the read with its own index, so it can replace that read.
    in_place: bool,
}

#[derive(Clone, Debug)]
enum CaptureSource {
    Read(usize),
    /// The read as a number, times a factor.
    Times(usize, f64),
    Of(Typed),
}

impl Captures {
    pub(super) fn of(probe: &CheckedProbe) -> Captures {
        let makes: Vec<CaptureSource> = probe.captures.iter().map(|(_, of)| make(of)).collect();
        let own = |(index, make): (usize, &CaptureSource)| match make {
            CaptureSource::Read(read) | CaptureSource::Times(read, _) => *read == index,
            CaptureSource::Of(_) => false,
        };
        Captures {
            names: probe.captures.iter().map(|(name, _)| name.clone()).collect(),
            in_place: makes.iter().enumerate().all(own),
            makes,
        }
    }

    /// The captures of a hit with these reads.
    pub(super) fn made(&self, mut reads: Reads) -> Reads {
        if !self.in_place || reads.len() != self.makes.len() {
            let makes = self.makes.iter().zip(&self.names);
            return makes
                .map(|(make, name)| named(make.of_all(&reads), name))
                .collect();
        }
        for ((cell, make), name) in reads.iter_mut().zip(&self.makes).zip(&self.names) {
            match (&mut *cell, make) {
                (Ok(Scalar::Number(value)), CaptureSource::Read(_)) if value.is_finite() => {}
                (Ok(Scalar::Number(value)), CaptureSource::Times(_, factor))
                    if (*value * factor).is_finite() =>
                {
                    *value *= factor;
                }
                _ => {
                    let made = make.of(cell);
                    *cell = named(made, name);
                }
            }
        }
        reads
    }
}

fn named(cell: Cell, name: &str) -> HitRead {
    cell.map_err(|reason| format!("{name} was not captured: {reason}"))
}

fn make(of: &Typed) -> CaptureSource {
    match &of.term {
        Term::Read(index) => CaptureSource::Read(*index),
        Term::Arithmetic(Operator::Multiply, left, right) => match (&left.term, &right.term) {
            (Term::Read(index), Term::Constant(Scalar::Number(factor)))
            | (Term::Constant(Scalar::Number(factor)), Term::Read(index)) => {
                CaptureSource::Times(*index, *factor)
            }
            _ => CaptureSource::Of(of.clone()),
        },
        _ => CaptureSource::Of(of.clone()),
    }
}

impl CaptureSource {
    fn of_all(&self, reads: &[HitRead]) -> Cell {
        match self {
            CaptureSource::Read(index) | CaptureSource::Times(index, _) => match reads.get(*index) {
                Some(read) => self.of(read),
                None => Err("it was not delivered".into()),
            },
            CaptureSource::Of(of) => {
                let context = Context {
                    reads,
                    ..Context::default()
                };
                context.eval(of).single()
            }
        }
    }

    fn of(&self, read: &HitRead) -> Cell {
        let value = read.clone()?;
        match (self, &value) {
            (CaptureSource::Times(_, factor), _) => finite(number(&value)? * factor),
            // The memory of a program need not contain a number.
            (_, Scalar::Number(number)) => finite(*number),
            _ => Ok(value),
        }
    }
}
