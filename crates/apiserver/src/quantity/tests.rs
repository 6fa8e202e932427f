use proptest::prelude::*;

use super::*;

#[test]
fn printed_as_kubernetes_prints_them() {
    for (text, expected) in [
        ("0", "0"),
        ("1", "1"),
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("1.500", "1.500"),
        ("100m", "100m"),
        ("2500m", "2500m"),
        ("1000", "1k"),
        ("2048", "2048"),
        ("1024Ki", "1Mi"),
        ("1500Mi", "1500Mi"),
        ("8Mi", "8Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.5Mi", "512Ki"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("12E", "12E"),
        ("100E", "100E"),
        ("+5", "+5"),
        ("007", "007"),
        ("0.0000000001", "1n"),
        ("1.G", "1.G"),
        ("10000G", "10T"),
        ("128974848", "128974848"),
        ("129e6", "129e6"),
        ("16Ei", "9223372036854775807"),
        ("-1500m", "-1500m"),
        ("-0.5", "-500m"),
        ("00", "0"),
        ("1e-3", "1e-3"),
        ("0.1e1", "1"),
        ("Ki", "0"),
        (".", "0"),
        (".5", "500m"),
        ("1.5Ki", "1536"),
        ("1.1Ki", "1126400m"),
        ("0.0001Ki", "102400u"),
    ] {
        assert_eq!(text.parse::<Quantity>().map(|quantity| quantity.to_string()), Ok(expected.to_owned()), "{text}");
    }
}

#[test]
fn errors() {
    for (text, expected) in [
        ("", Error::Format),
        ("aoeu", Error::Format),
        ("1.1.M", Error::Format),
        ("1+1.0M", Error::Format),
        ("0.1am", Error::Format),
        ("1 ", Error::Format),
        ("0.1mi", Error::Suffix),
        (".5i", Error::Suffix),
        ("-3.01e-", Error::Suffix),
        ("1kk", Error::Suffix),
    ] {
        assert_eq!(text.parse::<Quantity>(), Err(expected), "{text}");
    }
}

#[test]
fn amounts_compare() {
    let read = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!(read("1000m"), read("1"));
    assert_eq!(read("1500m").plus(&Quantity::whole(1)).unwrap().to_string(), "2500m");
    assert_eq!(read("1").minus(&read("1k")).unwrap().sign(), -1);
    assert_eq!((read("2k").as_whole(), read("1m").as_whole()), (Some(2000), None));
    assert_eq!(read("1Ki"), read("1024"));
    assert!(read("1Gi") > read("1G"));
    assert!(read("-1").is_negative() && read("0.0").is_zero() && !read("1500m").is_whole());
    assert_eq!(read("1u").rounded_to_milli().to_string(), "1m");
    assert_eq!(Quantity::from_value(&serde_json::json!(0.5)).unwrap().to_string(), "500m");
    assert_eq!(Quantity::from_value(&serde_json::json!(2)).unwrap().to_string(), "2");
}

proptest! {
    #[test]
    fn no_text_panics(text in "[-+0-9.eEinumkKMGTP]{0,50}", any in ".{0,20}") {
        for text in [text, any] {
            if let Ok(quantity) = text.parse::<Quantity>() {
                let _ = (quantity.to_string(), quantity.rounded_to_milli().to_string());
            }
        }
    }

    #[test]
    fn printing_keeps_the_amount(
        number in 0_u64..1_000_000_000_000, fraction in 0_u32..1_000_000,
        suffix in prop::sample::select(vec!["", "m", "k", "M", "G", "Ki", "Mi", "e3", "e-3"]),
    ) {
        let quantity = format!("{number}.{fraction:06}{suffix}").parse::<Quantity>().unwrap();
        let canonical = quantity.canonical();
        let again = canonical.parse::<Quantity>().unwrap();
        prop_assert_eq!(&again, &quantity);
        prop_assert_eq!(again.canonical(), canonical);
    }
}
