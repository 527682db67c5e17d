//! The slot of a key in a Cluster.

/// Slots of a Redis Cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key: of its hash tag, if it has one.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc: u16, _| {
            let carry = if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            (crc << 1) ^ carry
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_redis_own() {
        // As `CLUSTER KEYSLOT` says.
        assert_eq!(slot_of(b"123456789"), 12_739);
        assert_eq!(slot_of(b"tg:{abc}def"), slot_of(b"abc"));
        assert_eq!(slot_of(b"{}x"), crc16(b"{}x") % SLOTS);
    }
}
