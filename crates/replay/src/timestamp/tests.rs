use super::*;

fn secs(seconds: u64) -> Moment {
    Moment::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn access_log_times_are_read_with_their_zone() {
    assert_eq!(clf(b"17/May/2015:10:05:03 +0000"), Ok(secs(1_431_857_103)));
    assert_eq!(clf(b"17/May/2015:12:05:03 +0200"), Ok(secs(1_431_857_103)));
    assert_eq!(clf(b"01/Jul/1995:00:00:01 -0400"), Ok(secs(804_571_201)));
    assert_eq!(clf(b"01/Jan/1970:05:30:00 +0530"), Ok(Moment::ZERO));
    assert_eq!(clf(b"29/Feb/2000:00:00:00 +0000"), Ok(secs(951_782_400)));
    assert_eq!(clf(b"31/Dec/2016:23:59:60 +0000"), Ok(secs(1_483_228_800)));
}

#[test]
fn access_log_times_that_are_none_are_rejected() {
    let rejected: [(&[u8], BadMoment); 10] = [
        (b"", BadMoment::Form),
        (b"17/May/2015:10:05:03", BadMoment::Form),
        (b"17/Mai/2015:10:05:03 +0000", BadMoment::Form),
        (b"1x/May/2015:10:05:03 +0000", BadMoment::Form),
        (b"17/May/2015:10:05:03 *0000", BadMoment::Form),
        (b"31/Feb/2015:10:05:03 +0000", BadMoment::Calendar),
        (b"29/Feb/1900:10:05:03 +0000", BadMoment::Calendar),
        (b"00/May/2015:10:05:03 +0000", BadMoment::Calendar),
        (b"17/May/2015:24:05:03 +0000", BadMoment::Calendar),
        (b"31/Dec/1969:23:59:59 +0000", BadMoment::Early),
    ];
    for (text, why) in rejected {
        assert_eq!(clf(text), Err(why), "{}", text.escape_ascii());
    }
}

#[test]
fn numbers_of_seconds_are_exact() {
    let read = [
        ("0", 0),
        ("-0.0", 0),
        ("0.3", 300_000_000),
        ("1200000000.123456789", 1_200_000_000_123_456_789),
        ("1.25", 1_250_000_000),
        ("1.2e9", 1_200_000_000_000_000_000),
        ("1.5E-3", 1_500_000),
        ("100e-11", 1),
        ("0.100000000000000", 100_000_000),
        ("16725225600", MOMENT_MAX.as_nanos()),
        ("0e99999999999999999999", 0),
    ];
    for (text, nanos) in read {
        assert_eq!(seconds(text), Ok(Moment::from_nanos(nanos)), "{text}");
    }
}

#[test]
fn numbers_out_of_range_are_rejected_not_rounded() {
    let rejected = [
        ("-1", BadMoment::Early),
        ("-0.000000001", BadMoment::Early),
        ("0.0000000001", BadMoment::Fine),
        ("1.0000000001", BadMoment::Fine),
        ("1e-10", BadMoment::Fine),
        ("1e-99999999999999999999", BadMoment::Fine),
        ("16725225600.000000001", BadMoment::Late),
        ("18446744073.709551615", BadMoment::Late),
        ("18446744073.709551616", BadMoment::Late),
        ("1e11", BadMoment::Late),
        ("1e99999999999999999999", BadMoment::Late),
        ("", BadMoment::Form),
        ("1.", BadMoment::Form),
        (".5", BadMoment::Form),
        ("1e", BadMoment::Form),
        ("NaN", BadMoment::Form),
    ];
    for (text, why) in rejected {
        assert_eq!(seconds(text), Err(why), "{text}");
    }
}

#[test]
fn rfc_3339_is_read_exactly() {
    let second = 1_431_857_103_000_000_000;
    let read = [
        ("2015-05-17T10:05:03Z", second),
        ("2015-05-17t12:05:03+02:00", second),
        ("2015-05-17 06:35:03-03:30", second),
        ("2015-05-17T10:05:03.000000001Z", second + 1),
        ("2015-05-17T10:05:03.25000000000Z", second + 250_000_000),
        ("2016-12-31T23:59:60.5Z", 1_483_228_800_500_000_000),
        ("2500-01-01T00:00:00Z", MOMENT_MAX.as_nanos()),
    ];
    for (text, nanos) in read {
        assert_eq!(rfc3339(text), Ok(Moment::from_nanos(nanos)), "{text}");
    }
}

#[test]
fn what_is_not_rfc_3339_is_rejected() {
    let rejected = [
        ("", BadMoment::Form),
        ("1431857103", BadMoment::Form),
        ("2015-05-17", BadMoment::Form),
        ("2015-05-17T10:05:03", BadMoment::Form),
        ("2015-05-17T10:05:03.Z", BadMoment::Form),
        ("2015-05-17T10:05:03+0200", BadMoment::Form),
        ("2015-05-17T10:05:03é", BadMoment::Form),
        ("2015-02-29T10:05:03Z", BadMoment::Calendar),
        ("2015-13-01T10:05:03Z", BadMoment::Calendar),
        ("2015-05-17T10:05:61Z", BadMoment::Calendar),
        ("2015-05-17T10:05:03+24:00", BadMoment::Calendar),
        ("1969-12-31T23:59:59.9Z", BadMoment::Early),
        ("2500-01-01T00:00:00.000000001Z", BadMoment::Late),
        ("2554-07-21T23:34:33.709551615Z", BadMoment::Late),
        ("2554-07-21T23:34:33.709551616Z", BadMoment::Late),
        ("2015-05-17T10:05:03.0000000001Z", BadMoment::Fine),
    ];
    for (text, why) in rejected {
        assert_eq!(rfc3339(text), Err(why), "{text}");
    }
}

#[test]
fn what_is_written_reads_as_what_it_was() {
    for nanos in [
        0,
        1,
        300_000_000,
        1_431_857_103_000_000_000,
        951_825_599_999_999_999,
        MOMENT_MAX.as_nanos(),
    ] {
        let moment = Moment::from_nanos(nanos);
        assert_eq!(seconds(&Seconds(nanos).to_string()), Ok(moment));
        assert_eq!(rfc3339(&Utc(moment).to_string()), Ok(moment));
    }
    assert_eq!(Seconds(1_431_857_103_000_000_000).to_string(), "1431857103");
    assert_eq!(Seconds(300_000_000).to_string(), "0.3");
    assert_eq!(Utc(secs(1_431_857_103)).to_string(), "2015-05-17T10:05:03Z");
}
