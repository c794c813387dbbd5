use proptest::prelude::*;

use super::*;

#[test]
fn r2_bodies_lie_where_the_table_says() {
    let mut body = Vec::new();
    let request = BindRequest { layout: 0x0302, hash: [9; 16], name: "a.B" };
    request.write(&mut body);
    assert_eq!(body, [&[1, 0, 2, 3, 0, 0, 0, 0][..], &[9; 16], b"a.B"].concat());
    assert_eq!(BindRequest::parse(&body), Ok(request));
    body.clear();
    let codecs = CodecSet::from_bits(0x0403_0201);
    let (first, methods, schema) = (0x0605, 0x0807, &b"schema"[..]);
    let response = BindResponse { layout: 1, codecs, hash: [9; 16], first, methods, schema };
    response.write(&mut body);
    let fixed = [1, 0, 1, 0, 1, 2, 3, 4];
    assert_eq!(body, [&fixed[..], &[9; 16], &[5, 6, 7, 8], b"schema"].concat());
    assert_eq!(BindResponse::parse(&body), Ok(response));
}

#[test]
fn r2_version_0_short_bodies_and_names_that_are_not_text_are_malformed() {
    let mut body = [0; 25];
    assert_eq!(BindRequest::parse(&body), Err(Malformed::Bind));
    body[0] = 1;
    assert!(BindRequest::parse(&body).is_ok());
    assert_eq!(BindRequest::parse(&body[..23]), Err(Malformed::TooShort));
    (body[0], body[1], body[4]) = (255, 255, 7);
    assert!(BindRequest::parse(&body).is_ok(), "newer, and a reserved field");
    body[24] = 0xff;
    assert_eq!(BindRequest::parse(&body), Err(Malformed::Text));
}

#[test]
fn r2_a_response_of_another_version_or_with_impossible_numbers_is_malformed() {
    let response = |version: u8, first: u16, methods: u16| {
        let mut body = vec![0; 28];
        body[0] = version;
        body[24..26].copy_from_slice(&first.to_le_bytes());
        body[26..28].copy_from_slice(&methods.to_le_bytes());
        BindResponse::parse(&body).map(|answer| answer.methods)
    };
    assert_eq!(response(1, 1, 65_535), Ok(65_535));
    assert_eq!(response(1, 0, 0), Ok(0));
    assert_eq!(response(1, 0, 1), Err(Malformed::Bind));
    assert_eq!(response(1, 2, 65_535), Err(Malformed::Bind));
    assert_eq!(response(2, 1, 1), Err(Malformed::Bind));
    assert_eq!(BindResponse::parse(&[1; 27]), Err(Malformed::TooShort));
}

proptest! {
    #[test]
    fn r2_every_body_parses_or_fails_and_survives(mut bytes: Vec<u8>, version in 0u8..3) {
        if let Some(first) = bytes.first_mut() {
            *first = version;
        }
        let mut again = Vec::new();
        if let Ok(request) = BindRequest::parse(&bytes) {
            request.write(&mut again);
            prop_assert_eq!(BindRequest::parse(&again), Ok(request));
        }
        again.clear();
        if let Ok(response) = BindResponse::parse(&bytes) {
            response.write(&mut again);
            prop_assert_eq!(BindResponse::parse(&again), Ok(response));
        }
    }
}
