//! Quantities of processor time and memory: parsed exactly or refused, never rounded and never defaulted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// Not a number with an optional suffix.
    #[error("{0:?} is not a quantity such as 500m, 2, 1.5Gi or 129e6")]
    Syntax(String),
    /// The unit means nothing for this kind of quantity (`m` for memory is thousandths of a byte).
    #[error("{0:?}: {1} is no unit of {2}")]
    Unit(String, String, &'static str),
    /// Finer than the smallest unit.
    #[error("{0:?} is not a whole number of {1}")]
    Fraction(String, &'static str),
    /// Larger than can be represented.
    #[error("{0:?} is too large")]
    TooLarge(String),
    /// Zero, which schedulers take for "no limit".
    #[error("{0:?} is zero; leave the field out instead")]
    Zero(String),
}

/// Processor time in thousandths of a core.
///
/// Reads Kubernetes' quantity syntax (`250m`, `0.5`, `2`, `1e3m`); writes the shortest exact form.
///
/// ```
/// use scheduler_core::Cpu;
/// assert_eq!("0.5".parse::<Cpu>()?, Cpu::from_millis(500));
/// assert_eq!(Cpu::from_millis(2000).to_string(), "2");
/// assert!("0.0001".parse::<Cpu>().is_err());
/// # Ok::<(), scheduler_core::QuantityError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cpu(u64);

/// Memory in bytes.
///
/// Reads Kubernetes' quantity syntax (`64Mi`, `1.5Gi`, `1G`, `129e6`, `1E`); writes the shortest exact form. The suffix
/// `m` (thousandths of a byte, nearly always a mistake for `M`) is refused.
///
/// ```
/// use scheduler_core::Memory;
/// assert_eq!("1.5Gi".parse::<Memory>()?.bytes(), 1_610_612_736);
/// assert_eq!(Memory::from_mebibytes(2048).to_string(), "2Gi");
/// assert!("800m".parse::<Memory>().is_err());
/// # Ok::<(), scheduler_core::QuantityError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Memory(u64);

impl Cpu {
    /// So many thousandths of a core.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// So many cores.
    #[must_use]
    pub const fn from_cores(cores: u32) -> Self {
        Self(cores as u64 * 1000)
    }

    /// Thousandths of a core.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0
    }
}

impl Memory {
    /// So many bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// So many mebibytes (2²⁰ bytes).
    #[must_use]
    pub const fn from_mebibytes(mebibytes: u32) -> Self {
        Self((mebibytes as u64) << 20)
    }

    /// Bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) { write!(f, "{}", self.0 / 1000) } else { write!(f, "{}m", self.0) }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (suffix, shift) in [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{suffix}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl FromStr for Cpu {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let number = Number::parse(text)?;
        if number.binary != 0 {
            return Err(QuantityError::Unit(
                text.to_owned(),
                format!("a power of 1024 ({})", number.suffix),
                "processor time",
            ));
        }
        number.scaled(text, 3, "thousandths of a core").map(Self)
    }
}

impl FromStr for Memory {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let number = Number::parse(text)?;
        if matches!(number.suffix, "m" | "u" | "n") {
            return Err(QuantityError::Unit(text.to_owned(), format!("{:?}", number.suffix), "memory"));
        }
        number.scaled(text, 0, "bytes").map(Self)
    }
}

macro_rules! text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = QuantityError;
            fn try_from(text: String) -> Result<Self, QuantityError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(quantity: $name) -> Self {
                quantity.to_string()
            }
        }
    };
}
text!(Cpu);
text!(Memory);

/// A decimal number `digits × 10^decimal × 2^binary`, as Kubernetes writes quantities
/// (apimachinery's `resource.Quantity`: sign, decimal, then a binary suffix, a decimal suffix or an exponent).
struct Number<'a> {
    digits: u128,
    decimal: i32,
    binary: u32,
    suffix: &'a str,
}

impl<'a> Number<'a> {
    fn parse(text: &'a str) -> Result<Self, QuantityError> {
        let syntax = || QuantityError::Syntax(text.to_owned());
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (mantissa, suffix) = text.split_at(end);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return Err(syntax());
        }
        let fraction = fraction.trim_end_matches('0');
        let mut digits: u128 = 0;
        for c in whole.chars().chain(fraction.chars()) {
            let digit = c.to_digit(10).ok_or_else(syntax)?;
            digits = digits
                .checked_mul(10)
                .and_then(|d| d.checked_add(u128::from(digit)))
                .ok_or_else(|| QuantityError::TooLarge(text.to_owned()))?;
        }
        let (decimal, binary) = match suffix {
            "n" => (-9, 0),
            "u" => (-6, 0),
            "m" => (-3, 0),
            "" => (0, 0),
            "k" => (3, 0),
            "M" => (6, 0),
            "G" => (9, 0),
            "T" => (12, 0),
            "P" => (15, 0),
            "E" => (18, 0),
            "Ki" => (0, 10),
            "Mi" => (0, 20),
            "Gi" => (0, 30),
            "Ti" => (0, 40),
            "Pi" => (0, 50),
            "Ei" => (0, 60),
            _ => {
                let exponent = suffix.strip_prefix(['e', 'E']).ok_or_else(syntax)?;
                let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if unsigned.is_empty() || unsigned.len() > 4 || !unsigned.chars().all(|c| c.is_ascii_digit()) {
                    return Err(syntax());
                }
                (exponent.parse().map_err(|_| syntax())?, 0)
            }
        };
        let places = i32::try_from(fraction.len()).map_err(|_| QuantityError::TooLarge(text.to_owned()))?;
        Ok(Self { digits, decimal: decimal - places, binary, suffix })
    }

    /// The value in units of 10^-`places`, or why it is none.
    fn scaled(&self, text: &str, places: i32, unit: &'static str) -> Result<u64, QuantityError> {
        let too_large = || QuantityError::TooLarge(text.to_owned());
        if self.digits == 0 {
            return Err(QuantityError::Zero(text.to_owned()));
        }
        let mut value = self.digits.checked_mul(1 << self.binary).ok_or_else(too_large)?;
        let power = self.decimal + places;
        for _ in 0..power.unsigned_abs() {
            if power > 0 {
                value = value.checked_mul(10).ok_or_else(too_large)?;
            } else if value.is_multiple_of(10) {
                value /= 10;
            } else {
                return Err(QuantityError::Fraction(text.to_owned(), unit));
            }
        }
        u64::try_from(value).map_err(|_| too_large())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_reads_what_kubernetes_reads() {
        for (text, bytes) in [
            ("129e6", 129_000_000),
            ("1E", 1_000_000_000_000_000_000),
            ("1e3", 1000),
            ("1E3", 1000),
            ("1.5Gi", 1_610_612_736),
            ("2Pi", 1 << 51),
            ("1G", 1_000_000_000),
            ("0.5Ki", 512),
            ("1.0", 1),
            ("1000", 1000),
            (".5k", 500),
            ("10e-1", 1),
        ] {
            assert_eq!(text.parse::<Memory>().map(Memory::bytes), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_exact_quantity_is_refused() {
        for text in [
            "", "Gi", "-1", "+1", "1Gib", "1gi", "1 Gi", "1..5", "1.2.3", "0x10", "NaN", "1e", "1e+", "1e99999", "1,5",
            "0", "0Gi", "0.3", "800m", "16Ei", "1e40",
        ] {
            assert!(text.parse::<Memory>().is_err(), "{text}");
        }
        for text in ["0", "0.0005", "1Ki", "100u", "-1", "1e-4", "18446744073709551616"] {
            assert!(text.parse::<Cpu>().is_err(), "{text}");
        }
        assert_eq!("2000u".parse::<Cpu>(), Ok(Cpu::from_millis(2)));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,24}") {
            let _ = (text.parse::<Cpu>(), text.parse::<Memory>());
        }

        #[test]
        fn number_like_text_does_not_panic(text in "[0-9.]{0,40}[eEkKMGTPim]{0,3}[-+]?[0-9]{0,6}") {
            let _ = (text.parse::<Cpu>(), text.parse::<Memory>());
        }

        #[test]
        fn quantities_survive_a_round_trip(value in 1_u64..) {
            prop_assert_eq!(Memory::from_bytes(value).to_string().parse(), Ok(Memory::from_bytes(value)));
            prop_assert_eq!(Cpu::from_millis(value).to_string().parse(), Ok(Cpu::from_millis(value)));
        }
    }
}
