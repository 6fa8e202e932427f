//! The protobuf wire format.

/// Bytes that are no protobuf message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    /// The message ends in the middle of a field.
    #[error("unexpected EOF")]
    Short,
    /// A number longer than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A field number below one.
    #[error("proto: illegal tag {0} (wire type {1})")]
    Tag(u64, u8),
    /// A wire type that does not exist.
    #[error("proto: illegal wireType {0}")]
    Type(u8),
    /// A group that does not end.
    #[error("proto: unexpected end of group")]
    Group,
    /// A field of another type than it has.
    #[error("proto: wrong wireType = {0} for field {1}")]
    Mismatch(u8, String),
}

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
    /// A group, which no Kubernetes type has; passed over.
    Group,
}

impl Payload<'_> {
    /// The number of the wire type.
    pub(super) fn wire_type(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Group => 3,
            Self::Fixed32(_) => 5,
        }
    }
}

/// The fields of a message, in the order they come; ends after the first error.
pub(super) fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields { rest: bytes }
}

/// See [`fields`].
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Payload<'a>), Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, Payload<'a>), Broken> {
        let (number, wire_type) = self.tag()?;
        if wire_type == 3 {
            self.skip_group()?;
            return Ok((number, Payload::Group));
        }
        Ok((number, self.payload(wire_type)?))
    }

    fn tag(&mut self) -> Result<(u64, u8), Broken> {
        let key = varint(&mut self.rest)?;
        let (number, wire_type) = (key >> 3, u8::try_from(key & 7).unwrap_or_default());
        if number == 0 { Err(Broken::Tag(number, wire_type)) } else { Ok((number, wire_type)) }
    }

    fn payload(&mut self, wire_type: u8) -> Result<Payload<'a>, Broken> {
        Ok(match wire_type {
            0 => Payload::Varint(varint(&mut self.rest)?),
            1 => Payload::Fixed64(u64::from_le_bytes(*self.array()?)),
            2 => {
                let len = usize::try_from(varint(&mut self.rest)?).map_err(|_| Broken::Short)?;
                let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Broken::Short)?;
                self.rest = rest;
                Payload::Bytes(bytes)
            }
            5 => Payload::Fixed32(u32::from_le_bytes(*self.array()?)),
            4 => return Err(Broken::Group),
            other => return Err(Broken::Type(other)),
        })
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], Broken> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Broken::Short)?;
        self.rest = rest;
        Ok(array)
    }

    fn skip_group(&mut self) -> Result<(), Broken> {
        let mut open = 1_usize;
        while open > 0 {
            match self.tag()?.1 {
                3 => open += 1,
                4 => open -= 1,
                wire_type => {
                    self.payload(wire_type)?;
                }
            }
        }
        Ok(())
    }
}

/// Reads a variable-length number off the front.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, Broken> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(Broken::Short)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Broken::Overflow)
}
