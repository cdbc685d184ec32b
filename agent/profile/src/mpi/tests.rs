//! Tests the consistency of the table of functions.

use super::*;

#[test]
fn every_function_stands_once() {
    let mut stems: Vec<_> = FUNCTIONS.iter().map(|function| function.stem).collect();
    stems.sort_unstable();
    stems.dedup();
    assert_eq!(stems.len(), FUNCTIONS.len());
}

#[test]
fn large_count_variants_are_found_where_they_exist() {
    assert_eq!(
        find("MPI_Send").map(|called| (called.function.stem, called.is_large)),
        Some(("Send", false))
    );
    assert_eq!(
        find("MPI_Send_c").map(|called| (called.function.stem, called.is_large)),
        Some(("Send", true))
    );
    assert!(find("MPI_Barrier_c").is_none());
    assert!(find("MPI_Wtime").is_none());
}

#[test]
fn functions_that_send_nothing_differ_from_unknown_ones() {
    let nothing = |name| find(name).map(|called| called.function.sends_nothing());
    for name in ["MPI_Recv", "MPI_Barrier", "MPI_Waitall", "MPI_Scatter"] {
        assert_eq!(nothing(name), Some(true), "{name}");
    }
    for name in ["MPI_Send_init", "MPI_File_write", "MPI_Request_free"] {
        assert_eq!(nothing(name), Some(true), "{name}");
    }
    for name in ["MPI_Send", "MPI_Alltoall", "MPI_Start", "MPI_Compare_and_swap"] {
        assert_eq!(nothing(name), Some(false), "{name}");
    }
}

#[test]
fn collectives_that_keep_all_together_are_functions_of_the_table() {
    let keeping = FUNCTIONS.iter().filter(|function| function.keeps_all_together());
    assert_eq!(keeping.count(), 9);
}

#[test]
fn the_datatype_stands_behind_its_count_and_what_it_stands_between() {
    for function in FUNCTIONS {
        let Some(carries) = function.carries else { continue };
        let amounts = [
            Some(carries.amount),
            carries.received,
            carries.in_place.map(|(_, amount)| amount),
        ];
        for amount in amounts.into_iter().flatten() {
            let behind = amount.datatype - amount.count;
            let expected = match amount.form {
                AmountForm::One | AmountForm::PerRank | AmountForm::Unstated => behind == 1,
                AmountForm::None => behind == u8::from(carries.template.is_none()),
                AmountForm::Counts | AmountForm::CountsAndTypes => [1, 2].contains(&behind),
                AmountForm::OwnCount => behind == 2,
                AmountForm::Startall => behind == 1,
                AmountForm::Element | AmountForm::Start | AmountForm::Free => behind == 0,
            };
            assert!(expected, "{}: {amount:?}", function.stem);
        }
        // A communicator is required to translate or count ranks.
        let needs_comm = amounts.into_iter().flatten().any(|amount| {
            amount.peer.is_some()
                || matches!(
                    amount.form,
                    AmountForm::PerRank
                        | AmountForm::Counts
                        | AmountForm::CountsAndTypes
                        | AmountForm::OwnCount
                )
        });
        assert!(!needs_comm || carries.comm.is_some(), "{}", function.stem);
    }
}
