use super::*;

#[test]
fn formats_accept_and_refuse_as_kubernetes_does() {
    let check = |format: &str, text: &str, expected: bool| {
        assert_eq!(matches(format, text), expected, "{format} {text:?}");
    };
    check("date-time", "2014-12-15T19:30:20.000Z", true);
    check("date-time", "2014-12-15T19:30:20+01:00", true);
    check("date-time", "2014-12-15 19:30:20Z", false);
    check("date-time", "2014-13-15T19:30:20Z", false);
    check("date", "2024-02-29", true);
    check("date", "2023-02-29", false);
    check("duration", "1h30m", true);
    check("duration", "3 hours", true);
    check("duration", "later", false);
    check("ipv4", "10.0.0.1", true);
    check("ipv4", "10.0.0.256", false);
    check("ipv6", "::1", true);
    check("cidr", "10.0.0.0/8", true);
    check("cidr", "10.0.0.0/33", false);
    check("uri", "https://example.com/a?b", true);
    check("uri", "example", false);
    check("email", "a@example.com", true);
    check("email", "a", false);
    check("uuid", "123e4567-e89b-12d3-a456-426614174000", true);
    check("uuid4", "123e4567-e89b-12d3-a456-426614174000", false);
    check("hostname", "a.example.com", true);
    check("hostname", "-a", false);
    check("byte", "aGk=", true);
    check("byte", "a", false);
    check("mac", "00:00:5e:00:53:01", true);
    check("isbn13", "978-0321751041", true);
    check("k8s-short-name", "a-b", true);
    check("k8s-short-name", "A", false);
    check("int32", "anything", true);
}

#[test]
fn go_durations() {
    assert_eq!(go_duration("1h0m1.5s"), Some(3_601_500_000_000));
    assert_eq!(go_duration("-2ms"), Some(-2_000_000));
    assert_eq!(go_duration("1"), None);
    assert_eq!(go_duration("."), None);
}

#[test]
fn floats_print_as_in_go() {
    assert_eq!(go_float(1.0), "1");
    assert_eq!(go_float(1e21), "1e+21");
    assert_eq!(go_float(0.5), "0.5");
}
