//! The parameter tensors of the three models of figure 9, in the order of their layers.
//!
//! Derived from the published architectures, without what is not trained:
//! - MobileNet: Howard et al., *MobileNets*, 2017, table 1, with a width of 1;
//! - EfficientNetB0: Tan and Le, *EfficientNet*, 2019, table 1; its blocks are those of Tan et al.,
//!   *MnasNet*, 2019, with squeeze-and-excitation at a quarter of a block's input;
//! - InceptionV3: Szegedy et al., *Rethinking the Inception Architecture*, 2016, table 1, with the
//!   channels of torchvision's `inception_v3`, and without the auxiliary classifier.
//!
//! Convolutions have no bias, and a batch normalization follows each, with a scale and a shift for
//! each channel. The tests compare the sums with the published numbers of trained parameters.

use clap::ValueEnum;

/// A model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Model {
    #[value(name = "MobileNet")]
    MobileNet,
    #[value(name = "EfficientNetB0")]
    EfficientNetB0,
    #[value(name = "InceptionV3")]
    InceptionV3,
}

/// Bytes of a parameter.
const PARAMETER_BYTES: u32 = 4;
/// Classes of ImageNet.
const CLASSES: u32 = 1000;

/// Convolutions of MobileNet after the first: channels in and out.
const SEPARABLE: [(u32, u32); 13] = [
    (32, 64),
    (64, 128),
    (128, 128),
    (128, 256),
    (256, 256),
    (256, 512),
    (512, 512),
    (512, 512),
    (512, 512),
    (512, 512),
    (512, 512),
    (512, 1024),
    (1024, 1024),
];

/// Stages of EfficientNetB0: expansion, channels out, layers, and the side of the kernel.
const STAGES: [(u32, u32, u32, u32); 7] = [
    (1, 16, 1, 3),
    (6, 24, 2, 3),
    (6, 40, 2, 5),
    (6, 80, 3, 3),
    (6, 112, 3, 5),
    (6, 192, 4, 5),
    (6, 320, 1, 3),
];

/// A convolution: parameters of a kernel's plane, and channels in and out.
type Convolution = (u32, u32, u32);

impl Model {
    /// The name, as the paper has it.
    pub fn name(self) -> &'static str {
        match self {
            Model::MobileNet => "MobileNet",
            Model::EfficientNetB0 => "EfficientNetB0",
            Model::InceptionV3 => "InceptionV3",
        }
    }

    /// Bytes of each tensor.
    pub fn tensor_bytes(self) -> Vec<u32> {
        let mut tensors = Tensors::default();
        match self {
            Model::MobileNet => mobile_net(&mut tensors),
            Model::EfficientNetB0 => efficient_net_b0(&mut tensors),
            Model::InceptionV3 => inception_v3(&mut tensors),
        }
        tensors.parameters.iter().map(|count| count * PARAMETER_BYTES).collect()
    }
}

/// The numbers of parameters so far.
#[derive(Default)]
struct Tensors {
    parameters: Vec<u32>,
}

impl Tensors {
    /// A convolution and its normalization.
    fn convolution(&mut self, (plane, channels_in, channels_out): Convolution) {
        self.parameters.extend([plane * channels_in * channels_out, channels_out, channels_out]);
    }

    fn convolutions(&mut self, all: &[Convolution]) {
        all.iter().for_each(|one| self.convolution(*one));
    }

    /// A layer with a bias, each of whose outputs has all inputs.
    fn dense(&mut self, inputs: u32, outputs: u32) {
        self.parameters.extend([inputs * outputs, outputs]);
    }
}

fn mobile_net(tensors: &mut Tensors) {
    tensors.convolution((9, 3, 32));
    for (channels_in, channels_out) in SEPARABLE {
        // Each channel by itself, and then each point.
        tensors.convolutions(&[(9, 1, channels_in), (1, channels_in, channels_out)]);
    }
    tensors.dense(1024, CLASSES);
}

fn efficient_net_b0(tensors: &mut Tensors) {
    tensors.convolution((9, 3, 32));
    let mut channels = 32;
    for (expansion, channels_out, layers, side) in STAGES {
        for _ in 0..layers {
            let (expanded, squeezed) = (channels * expansion, channels / 4);
            if expansion > 1 {
                tensors.convolution((1, channels, expanded));
            }
            tensors.convolution((side * side, 1, expanded));
            tensors.dense(expanded, squeezed);
            tensors.dense(squeezed, expanded);
            tensors.convolution((1, expanded, channels_out));
            channels = channels_out;
        }
    }
    tensors.convolution((1, channels, 1280));
    tensors.dense(1280, CLASSES);
}

fn inception_v3(tensors: &mut Tensors) {
    let stem = [(9, 3, 32), (9, 32, 32), (9, 32, 64), (1, 64, 80), (9, 80, 192)];
    tensors.convolutions(&stem);
    for (channels, pooled) in [(192, 32), (256, 64), (288, 64)] {
        let fives = [(1, channels, 64), (1, channels, 48), (25, 48, 64)];
        let threes = [(1, channels, 64), (9, 64, 96), (9, 96, 96), (1, channels, pooled)];
        tensors.convolutions(&[&fives[..], &threes].concat());
    }
    tensors.convolutions(&[(9, 288, 384), (1, 288, 64), (9, 64, 96), (9, 96, 96)]);
    for inner in [128, 160, 160, 192] {
        let once = [(1, 768, 192), (1, 768, inner), (7, inner, inner), (7, inner, 192)];
        let twice = [(1, 768, inner), (7, inner, inner), (7, inner, inner), (7, inner, inner)];
        tensors.convolutions(&[&once[..], &twice, &[(7, inner, 192), (1, 768, 192)]].concat());
    }
    let reduced = [(1, 768, 192), (9, 192, 320)];
    let sevens = [(1, 768, 192), (7, 192, 192), (7, 192, 192), (9, 192, 192)];
    tensors.convolutions(&[&reduced[..], &sevens].concat());
    for channels in [1280, 2048] {
        let once = [(1, channels, 320), (1, channels, 384), (3, 384, 384), (3, 384, 384)];
        let twice = [(1, channels, 448), (9, 448, 384), (3, 384, 384), (3, 384, 384)];
        tensors.convolutions(&[&once[..], &twice, &[(1, channels, 192)]].concat());
    }
    tensors.dense(2048, CLASSES);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of the implementations in Keras and torchvision. Keras' InceptionV3 has no scales.
    #[test]
    fn the_sums_are_the_published_numbers_of_trained_parameters() {
        for (model, parameters, tensors) in [
            (Model::MobileNet, 4_231_976, 27 * 3 + 2),
            (Model::EfficientNetB0, 5_288_548, 49 * 3 + 16 * 4 + 2),
            (Model::InceptionV3, 23_834_568, 94 * 3 + 2),
        ] {
            let bytes = model.tensor_bytes();
            let sum: u64 = bytes.iter().map(|bytes| u64::from(*bytes)).sum();
            assert_eq!(sum / u64::from(PARAMETER_BYTES), parameters, "{}", model.name());
            assert_eq!(bytes.len(), tensors, "{}", model.name());
            assert!(bytes.iter().all(|bytes| *bytes > 0 && *bytes <= 8_192_000));
        }
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for model in Model::value_variants() {
            let value = model.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), model.name());
        }
    }
}
