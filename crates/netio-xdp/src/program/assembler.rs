//! A small assembler for eBPF, with only the instructions that this crate's programs need.
//!
//! An instruction is 64 bits: code, destination and source register, offset, immediate (RFC 9669,
//! section 3). Jumps go forward, to labels that are bound later.

/// A register. The tenth is the read-only frame pointer; calls destroy the first to the fifth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reg {
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R6 = 6,
    R7 = 7,
    R8 = 8,
    R10 = 10,
}

/// Bytes that a load or store moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Width {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
    Double = 0x18,
}

/// A place to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// Instructions, and the jumps among them that wait for their label.
#[derive(Default)]
pub(crate) struct Assembler {
    code: Vec<u64>,
    /// Where each label is bound.
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Binds `label` to the next instruction.
    pub(crate) fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// `to = from`
    pub(crate) fn copy(&mut self, to: Reg, from: Reg) {
        self.emit(ALU64 | MOV | FROM_REGISTER, to, from as u8, 0, 0);
    }

    /// `to = value`
    pub(crate) fn set(&mut self, to: Reg, value: i32) {
        self.emit(ALU64 | MOV, to, 0, 0, value);
    }

    /// `to += value`
    pub(crate) fn add(&mut self, to: Reg, value: i32) {
        self.emit(ALU64 | ADD, to, 0, 0, value);
    }

    /// `to += from`
    pub(crate) fn add_register(&mut self, to: Reg, from: Reg) {
        self.emit(ALU64 | ADD | FROM_REGISTER, to, from as u8, 0, 0);
    }

    /// `to -= from`
    pub(crate) fn subtract_register(&mut self, to: Reg, from: Reg) {
        self.emit(ALU64 | SUBTRACT | FROM_REGISTER, to, from as u8, 0, 0);
    }

    /// `to &= value`
    pub(crate) fn and(&mut self, to: Reg, value: i32) {
        self.emit(ALU64 | AND, to, 0, 0, value);
    }

    /// `to = *(base + offset)`
    pub(crate) fn load(&mut self, to: Reg, width: Width, base: Reg, offset: i16) {
        self.emit(LOAD | MEMORY | width as u8, to, base as u8, offset, 0);
    }

    /// `*(base + offset) = from`
    pub(crate) fn store(&mut self, base: Reg, offset: i16, width: Width, from: Reg) {
        self.emit(STORE_REGISTER | MEMORY | width as u8, base, from as u8, offset, 0);
    }

    /// `*(base + offset) = value`
    pub(crate) fn store_value(&mut self, base: Reg, offset: i16, width: Width, value: i32) {
        self.emit(STORE_VALUE | MEMORY | width as u8, base, 0, offset, value);
    }

    /// `*(base + offset) += from`, 64 bits, atomically
    pub(crate) fn atomic_add(&mut self, base: Reg, offset: i16, from: Reg) {
        let code = STORE_REGISTER | ATOMIC | Width::Double as u8;
        self.emit(code, base, from as u8, offset, i32::from(ADD));
    }

    /// `to = ` the map with this descriptor: an instruction of two slots.
    pub(crate) fn load_map(&mut self, to: Reg, map: i32) {
        self.emit(LOAD_IMMEDIATE, to, PSEUDO_MAP_DESCRIPTOR, 0, map);
        self.code.push(0);
    }

    /// `if left == value goto label`
    pub(crate) fn if_equal(&mut self, left: Reg, value: i32, label: Label) {
        self.jump(JUMP | EQUAL, left, 0, value, label);
    }

    /// `if left != value goto label`
    pub(crate) fn if_not_equal(&mut self, left: Reg, value: i32, label: Label) {
        self.jump(JUMP | NOT_EQUAL, left, 0, value, label);
    }

    /// `if left > right goto label`, unsigned
    pub(crate) fn if_greater(&mut self, left: Reg, right: Reg, label: Label) {
        self.jump(JUMP | GREATER | FROM_REGISTER, left, right as u8, 0, label);
    }

    /// `goto label`
    pub(crate) fn go_to(&mut self, label: Label) {
        self.jump(JUMP | ALWAYS, Reg::R0, 0, 0, label);
    }

    /// `r0 = helper(r1, …)`
    pub(crate) fn call(&mut self, helper: i32) {
        self.emit(JUMP | CALL, Reg::R0, 0, 0, helper);
    }

    /// `return r0`
    pub(crate) fn exit(&mut self) {
        self.emit(JUMP | EXIT, Reg::R0, 0, 0, 0);
    }

    /// The program.
    ///
    /// # Panics
    /// If a label was never bound, or bound before its jump: the program is fixed, so that is a
    /// bug that its first use shows.
    pub(crate) fn finish(mut self) -> Vec<u64> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label is bound");
            let distance = target.checked_sub(at + 1).expect("jumps go forward");
            let distance = i16::try_from(distance).expect("the program is short");
            self.code[at] |= u64::from(distance as u16) << 16;
        }
        self.code
    }

    fn jump(&mut self, code: u8, left: Reg, right: u8, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(code, left, right, 0, value);
    }

    fn emit(&mut self, code: u8, to: Reg, from: u8, offset: i16, value: i32) {
        // The fields in memory order; registers share a byte, whose halves swap with endianness.
        let registers = if cfg!(target_endian = "little") {
            from << 4 | to as u8
        } else {
            (to as u8) << 4 | from
        };
        let (offset, value) = (offset.to_ne_bytes(), value.to_ne_bytes());
        let bytes = [code, registers, offset[0], offset[1], value[0], value[1], value[2], value[3]];
        self.code.push(u64::from_ne_bytes(bytes));
    }
}

const LOAD: u8 = 0x01;
const STORE_VALUE: u8 = 0x02;
const STORE_REGISTER: u8 = 0x03;
const JUMP: u8 = 0x05;
const ALU64: u8 = 0x07;
const MEMORY: u8 = 0x60;
const ATOMIC: u8 = 0xc0;
const LOAD_IMMEDIATE: u8 = 0x18;
const FROM_REGISTER: u8 = 0x08;
const ADD: u8 = 0x00;
const SUBTRACT: u8 = 0x10;
const AND: u8 = 0x50;
const MOV: u8 = 0xb0;
const ALWAYS: u8 = 0x00;
const EQUAL: u8 = 0x10;
const GREATER: u8 = 0x20;
const NOT_EQUAL: u8 = 0x50;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
/// In the source register of [`LOAD_IMMEDIATE`]: the value is a map's descriptor.
const PSEUDO_MAP_DESCRIPTOR: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_have_the_encoding_of_rfc_9669() {
        let mut assembler = Assembler::default();
        let end = assembler.label();
        assembler.copy(Reg::R6, Reg::R1);
        assembler.load(Reg::R2, Width::Half, Reg::R7, 12);
        assembler.store_value(Reg::R10, -8, Width::Double, 0);
        assembler.if_greater(Reg::R2, Reg::R8, end);
        assembler.load_map(Reg::R1, 5);
        assembler.subtract_register(Reg::R2, Reg::R3);
        assembler.atomic_add(Reg::R7, 16, Reg::R8);
        assembler.bind(end);
        assembler.exit();
        let expected = [
            0x0000_0000_0000_16bf,
            0x0000_0000_000c_7269,
            0x0000_0000_fff8_0a7a,
            0x0000_0000_0004_822d,
            0x0000_0005_0000_1118,
            0,
            0x0000_0000_0000_321f,
            0x0000_0000_0010_87db,
            0x0000_0000_0000_0095,
        ];
        assert_eq!(assembler.finish(), expected);
    }

    #[test]
    #[should_panic(expected = "every label is bound")]
    fn a_label_that_leads_nowhere_is_a_bug() {
        let mut assembler = Assembler::default();
        let label = assembler.label();
        assembler.go_to(label);
        assembler.finish();
    }
}
