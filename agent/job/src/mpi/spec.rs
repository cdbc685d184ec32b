//! The spec of an MPI function for the kernel side: which arguments contain the size of a message, and its
//! sender and receiver.

use abi::{AmountForm, Flow, MessageSpec, NO_ARGUMENT};

use profile::mpi::{AmountSource, BytesKind, CalledFunction};

use super::Implementation;

/// The spec of a function of this library. Rows of sizes are assigned where the functions are numbered.
pub fn spec(called: CalledFunction, implementation: &Implementation) -> MessageSpec {
    let mut spec = MessageSpec {
        layout: implementation.layout as u8,
        count_width: if called.is_large { 8 } else { 4 },
        size_offset: implementation.size_offset,
        ..MessageSpec::default()
    };
    let Some(carries) = called.function.carries else {
        return spec;
    };
    let argument = |number: Option<u8>| number.unwrap_or(NO_ARGUMENT);
    spec.amount = amount(carries.amount);
    spec.comm = argument(carries.comm);
    spec.status = argument(carries.status);
    spec.template = argument(carries.template);
    spec.found = argument(carries.found);
    if let Some((buffer, in_place)) = carries.in_place {
        spec.buffer = buffer;
        spec.other = amount(in_place);
    }
    if let Some(received) = carries.received {
        spec.other = amount(received);
    }
    spec.flow = match (carries.is_message, carries.received, carries.kind) {
        (false, ..) => Flow::None,
        (_, Some(_), _) => Flow::Both,
        (_, None, BytesKind::Sent) => Flow::Sent,
        _ => Flow::Received,
    } as u8;
    spec
}

fn amount(amount: AmountSource) -> abi::Amount {
    let needs_type = !matches!(amount.form, AmountForm::Start | AmountForm::Free);
    abi::Amount {
        form: amount.form as u8,
        count: amount.count,
        datatype: if needs_type { amount.datatype } else { NO_ARGUMENT },
        peer: amount.peer.unwrap_or(NO_ARGUMENT),
    }
}

#[cfg(test)]
mod tests {
    use abi::SizeLayout;

    use super::*;

    fn of(name: &str) -> MessageSpec {
        let library = Implementation {
            name: "MPICH",
            version: None,
            layout: SizeLayout::InHandle,
            size_offset: 0,
        };
        spec(profile::mpi::find(name).unwrap(), &library)
    }

    #[test]
    fn every_function_that_carries_bytes_has_a_row_for_their_sizes() {
        let carrying = profile::mpi::FUNCTIONS
            .iter()
            .filter(|function| function.has_bytes());
        let rows: u32 = carrying
            .map(|function| 1 + u32::from(function.has_large_count))
            .sum();
        assert!(rows <= abi::ROWS_MAX, "{rows} rows");
    }

    #[test]
    fn a_spec_that_says_nothing_names_no_argument() {
        let nothing = MessageSpec::default();
        let arguments = [
            nothing.buffer,
            nothing.comm,
            nothing.status,
            nothing.template,
            nothing.found,
        ];
        assert_eq!(arguments, [NO_ARGUMENT; 5]);
        assert_eq!(
            (nothing.amount, nothing.other),
            (abi::Amount::NONE, abi::Amount::NONE)
        );
        assert_eq!(nothing.row, MessageSpec::NO_ROW);
    }

    #[test]
    fn both_halves_of_a_call_and_what_lies_in_place_are_distinguished() {
        let both = of("MPI_Sendrecv");
        assert_eq!((both.flow, both.comm, both.status), (Flow::Both as u8, 10, 11));
        assert_eq!((both.amount.peer, both.other.count, both.other.peer), (3, 6, 8));
        assert_eq!(both.buffer, NO_ARGUMENT);
        let gathered = of("MPI_Allgatherv_c");
        assert_eq!((gathered.count_width, gathered.buffer), (8, 0));
        assert_eq!(
            (gathered.other.form, gathered.other.count),
            (AmountForm::OwnCount as u8, 4)
        );
        assert_eq!(gathered.flow, Flow::None as u8);
        let made = of("MPI_Recv_init");
        assert_eq!((made.template, made.flow), (6, Flow::Received as u8));
        assert_eq!(made.found, NO_ARGUMENT);
    }

    #[test]
    fn a_message_that_is_found_is_received_by_another_call() {
        let finding = of("MPI_Improbe");
        assert_eq!((finding.template, finding.status, finding.comm), (4, 5, 2));
        assert_eq!(
            (finding.amount.form, finding.amount.peer),
            (AmountForm::None as u8, 0)
        );
        let receiving = of("MPI_Mrecv");
        assert_eq!((receiving.found, receiving.flow), (3, Flow::Received as u8));
        assert_eq!(
            (receiving.template, receiving.amount.peer),
            (NO_ARGUMENT, NO_ARGUMENT)
        );
    }
}
