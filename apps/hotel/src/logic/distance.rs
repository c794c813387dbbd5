//! Distances on the earth.

/// The earth's mean radius.
const RADIUS_KM: f64 = 6371.0;

/// The distance of two places, as latitude and longitude in degrees, along the surface.
pub fn distance_km(a: (f64, f64), b: (f64, f64)) -> f64 {
    let half = |degrees: f64| (degrees.to_radians() / 2.0).sin().powi(2);
    let across = a.0.to_radians().cos() * b.0.to_radians().cos() * half(b.1 - a.1);
    2.0 * RADIUS_KM * (half(b.0 - a.0) + across).clamp(0.0, 1.0).sqrt().asin()
}

/// Whether these are a latitude and a longitude.
pub fn is_place(lat: f64, lon: f64) -> bool {
    (-90.0..=90.0).contains(&lat) && (-180.0..=180.0).contains(&lon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_known() {
        let (paris, london) = ((48.8566, 2.3522), (51.5074, -0.1278));
        let km = distance_km(paris, london);
        assert!((343.0..345.0).contains(&km), "{km}");
        assert_eq!(distance_km(paris, paris), 0.0);
        let half = distance_km((0.0, 0.0), (0.0, 180.0));
        assert!((half - RADIUS_KM * std::f64::consts::PI).abs() < 1e-6);
    }

    #[test]
    fn what_is_no_place_is_told() {
        assert!(is_place(90.0, -180.0));
        for (lat, lon) in [(90.1, 0.0), (0.0, 180.1), (f64::NAN, 0.0), (0.0, f64::INFINITY)] {
            assert!(!is_place(lat, lon));
        }
    }
}
