//! Products: the laws, and the documented accuracy.

use proptest::prelude::*;

use super::{doubles, lawful, split, times};
use crate::aggregate::product::{exp2, log2};
use crate::aggregate::{Product, VALUES_MAX, WhyNone};

proptest! {
    #[test]
    fn products_are_lawful_beyond_the_bound_too(split in split((doubles(), times()))) {
        let _ = lawful(&split, |product: &mut Product, (x, times)| product.put(*x, *times));
    }

    #[test]
    fn a_product_of_integers_is_exact_as_long_as_it_is_a_double(
        factors in proptest::collection::vec(-40..=40_i64, 0..9),
        scale in -500..500_i32,
    ) {
        let mut product = Product::default();
        factors.iter().for_each(|x| product.add(*x as f64));
        product.add(2_f64.powi(scale));
        let exact: i64 = factors.iter().product();
        prop_assert_eq!(product.product(), Ok(exact as f64 * 2_f64.powi(scale)));
    }

    #[test]
    fn a_number_and_its_inverse_make_one(factors in proptest::collection::vec(1e-100..1e100, 1..100)) {
        let mut product = Product::default();
        for x in &factors {
            product.add(*x);
            product.add(1.0 / x);
        }
        // Each inverse is rounded by up to 2^-53.
        let off = (product.product().unwrap() - 1.0).abs();
        prop_assert!(off <= (factors.len() + 2) as f64 * f64::EPSILON / 2.0, "{}", off);
    }

    #[test]
    fn two_factors_give_what_the_processor_gives(x in doubles(), y in doubles()) {
        let mut product = Product::default();
        product.add(x);
        product.add(y);
        let theirs = x * y;
        match product.product() {
            Ok(ours) if ours == theirs => {}
            // Close to the midpoint of two doubles the 62 bits may not suffice; the result is then a
            // neighbour.
            Ok(ours) => prop_assert_eq!(ours.to_bits().abs_diff(theirs.to_bits()), 1),
            Err(_) => prop_assert!(!theirs.is_finite() || !x.is_finite() || !y.is_finite()),
        }
    }
}

#[test]
fn products_are_what_rational_arithmetic_gives() {
    let product = |values: &[f64]| {
        let mut product = Product::default();
        values.iter().for_each(|x| product.add(*x));
        product.product()
    };
    assert_eq!(product(&[]), Ok(1.0));
    assert_eq!(product(&[2.0, 3.0, -7.0]), Ok(-42.0));
    assert_eq!(product(&[0.1; 10]), Ok(1.0000000000000006e-10));
    assert_eq!(product(&[1.1, 2.2, 3.3, -4.4]), Ok(-35.138400000000004));
    assert_eq!(product(&[0.3, 7e100, 9e-90]), Ok(188999999999.99997));
    assert_eq!(product(&[3.0; 30]), Ok(205_891_132_094_649.0));
    assert_eq!(product(&[1.0 + f64::EPSILON; 100]), Ok(1.0000000000000222));
    assert_eq!(
        product(&[2e300, 2e300, 0.5e-300, 0.5e-300]),
        Ok(1.0000000000000002)
    );
    assert_eq!(product(&[1e300, 1e300]), Err(WhyNone::TooLarge));
    assert_eq!(product(&[5e-324, 0.5]), Ok(0.0));
    assert_eq!(product(&[0.0, -3.0]), Ok(0.0));
    let mut square = Product::default();
    square.put(-3.0, 2);
    assert_eq!(square.product(), Ok(9.0));
    assert_eq!(product(&[0.0, f64::INFINITY]), Err(WhyNone::NotFinite(1)));
}

#[test]
fn one_factor_more_than_there_may_be_is_an_overflow() {
    let mut product = Product::default();
    product.put(-f64::MAX, VALUES_MAX);
    assert_eq!(product.product(), Err(WhyNone::TooLarge));
    product.add(1.0);
    assert_eq!(product.product(), Err(WhyNone::Overflow));
}

/// Computed to 60 digits: results are never too large, and the error is below the documented 4 units of the
/// last bit.
#[test]
fn logarithms_and_powers_in_fixed_point() {
    for (m, exact) in [
        (0xc000000000000000_u64, 10790653543520307103_u64),
        (0xfffffffffffff800_u64, 18446744073709548661_u64),
        (0x8000000000000800_u64, 5909_u64),
        (0xcafef00ddeadb800_u64, 12272737379568863829_u64),
        (0xb504f333f9de6000_u64, 9223372036854773448_u64),
    ] {
        assert!((0..4).contains(&(exact - log2(m))), "log2 of {m}");
    }
    assert_eq!((log2(1 << 63), exp2(0)), (0, 1 << 63));
    for (fraction, exact) in [
        (1_u64, 9223372036854775808_u64),
        (9223372036854775808_u64, 13043817825332782212_u64),
        (18446744073709551615_u64, 18446744073709551615_u64),
        (1311768467463790320_u64, 9689387046016716961_u64),
        (12786308645202655659_u64, 14912409449754086752_u64),
    ] {
        assert!((0..4).contains(&(exact - exp2(fraction))), "2 to the {fraction}");
    }
}
