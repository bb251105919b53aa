//! Buffers: what is written is read, what is not there is an error.

use super::device;
use cuda_std::emulator::memory::POISON;
use std::fmt::Debug;
use varve::backend::{BackendError, Device, EmulatorConfig, ShapeError};

fn round_trip<T: bytemuck::Pod + PartialEq + Debug>(device: &Device, value: impl Fn(usize) -> T) {
    for len in [0, 1, 7, 64, 100_003] {
        let data: Vec<T> = (0..len).map(&value).collect();
        let buffer = device.upload(&data).unwrap();
        assert_eq!((buffer.len(), buffer.is_empty()), (len, len == 0));
        assert_eq!(buffer.as_ptr().addr() % 256, 0);
        assert_eq!(buffer.read().unwrap(), data);
        assert_eq!(buffer.read_on(&device.stream().unwrap()).unwrap(), data);
    }
}

#[test]
fn data_comes_back_as_it_was() {
    let device = device();
    round_trip(&device, |i| i as u8);
    round_trip(&device, |i| i as i16);
    round_trip(&device, |i| i as f32 * 0.5 - 3.0);
    round_trip(&device, |i| f64::from_bits(0x3ff0_0000_0000_0000 + i as u64));
    round_trip(&device, |i| [i as u32, !i as u32, 7, 8]);
}

#[test]
fn parts_are_written_and_read() {
    let device = device();
    let mut buffer = device.upload(&[0u32; 10]).unwrap();
    buffer.write_at(3, &[5, 6, 7]).unwrap();
    buffer.write_at(10, &[]).unwrap();
    assert_eq!(buffer.read_range(2..7).unwrap(), [0, 5, 6, 7, 0]);
    assert_eq!(buffer.read_range(10..10).unwrap(), [0u32; 0]);
    let text = buffer.write_at(8, &[1, 2, 3]).unwrap_err().to_string();
    assert_eq!(text, "Buffer::write_at: the buffer has 10 elements, the data 11");
    assert!(matches!(buffer.read_range(4..11), Err(BackendError::Length { buffer: 10, data: 11, .. })));
    let text = buffer.write(&[1; 9]).unwrap_err().to_string();
    assert_eq!(text, "Buffer::write: the buffer has 10 elements, the data 9");
    assert_eq!(buffer.read().unwrap(), [0, 0, 0, 5, 6, 7, 0, 0, 0, 0], "a refused write changes nothing");
}

#[test]
fn poison_is_nan_to_the_last_byte() {
    let device = device();
    let mut floats = device.upload(&[1.0f32; 33]).unwrap();
    floats.poison().unwrap();
    assert!(floats.read().unwrap().iter().all(|v| v.is_nan() && v.to_bits() == POISON));
    let mut bytes = device.upload(&[0u8; 6]).unwrap();
    bytes.poison().unwrap();
    let pattern = POISON.to_le_bytes();
    assert_eq!(bytes.read().unwrap(), [pattern[0], pattern[1], pattern[2], pattern[3], pattern[0], pattern[1]]);
    if device.caps().is_emulator {
        assert!(device.alloc::<f32>(5).unwrap().read().unwrap().iter().all(|v| v.is_nan()), "fresh memory");
    }
}

#[test]
fn fills_and_copies_work_at_once_and_in_stream_order() {
    let (device, data) = (device(), [1u32, 2, 3, 4, 5]);
    let s = device.stream().unwrap();
    let source = device.upload(&data).unwrap();
    let (mut a, mut b) = (device.alloc::<u32>(5).unwrap(), device.alloc::<u32>(5).unwrap());
    a.fill_bytes(0x11).unwrap();
    assert_eq!(a.read().unwrap(), [0x1111_1111; 5]);
    a.copy_from(&source).unwrap();
    assert_eq!(a.read().unwrap(), data);
    a.fill_bytes_on(&s, 0x22).unwrap();
    b.copy_from_on(&s, &a).unwrap();
    a.write_on(&s, &data).unwrap();
    s.synchronize().unwrap();
    assert_eq!((a.read().unwrap(), b.read().unwrap()), (data.to_vec(), vec![0x2222_2222; 5]));
    let short = device.alloc::<u32>(4).unwrap();
    assert!(matches!(a.copy_from(&short), Err(BackendError::Length { buffer: 5, data: 4, .. })));
}

#[test]
fn views_check_their_lengths() {
    let device = device();
    let mut buffer = device.alloc::<f32>(24).unwrap();
    let view = buffer.view([2, 3, 4]).unwrap();
    assert_eq!((view.dims, view.strides, view.ptr()), ([2, 3, 4], [12, 4, 1], buffer.as_ptr()));
    let text = buffer.view([5, 5]).unwrap_err().to_string();
    assert_eq!(text, "a view of shape [5, 5] has 25 elements, the buffer has 24");
    assert!(matches!(buffer.view_mut([23]), Err(ShapeError::Length { want: 23, got: 24, .. })));
    assert!(matches!(buffer.view_strided(1, [4, 6], [6, 1]), Err(ShapeError::Beyond { .. })));
    assert!(matches!(buffer.view_strided_mut(0, [4, 6], [3, 1]), Err(ShapeError::Overlap { .. })));
    let start = buffer.as_ptr();
    let mut rows = buffer.view_strided_mut(2, [3, 4], [8, 1]).unwrap();
    assert_eq!(rows.ptr_mut().cast_const(), start.wrapping_add(2));
    assert!(rows.is_aligned(8) && !rows.is_aligned(16) && !rows.is_dense());
}

#[test]
fn too_much_memory_is_an_error_with_the_amount() {
    let device = device();
    let bytes = 1usize << 62;
    let text = device.alloc::<u8>(bytes).unwrap_err().to_string();
    assert!(text.starts_with(&format!("{}: {bytes} bytes of device memory asked for: ", device.spec())), "{text}");
    assert!(matches!(device.alloc::<u64>(usize::MAX), Err(BackendError::OutOfMemory { .. })));
}

#[test]
fn devices_do_not_mix() {
    let (device, other) = (device(), Device::emulator(EmulatorConfig::default()));
    let s = other.stream().unwrap();
    let (mut a, b) = (device.alloc::<f32>(4).unwrap(), other.alloc::<f32>(4).unwrap());
    assert!(matches!(a.copy_from(&b), Err(BackendError::OtherDevice { .. })));
    assert!(matches!(a.fill_bytes_on(&s, 0), Err(BackendError::OtherDevice { .. })));
    let text = a.read_on(&s).unwrap_err().to_string();
    assert_eq!(text, format!("Buffer::read_on: `emulator` and `{}` are different devices", device.spec()));
}

#[test]
fn a_card_opened_twice_is_one_device() {
    let (a, b) = (device(), device());
    assert_eq!(a == b, !a.caps().is_emulator);
}

#[test]
fn a_buffer_may_be_dropped_while_its_device_lives_on_in_others() {
    let device = device();
    let s = device.stream().unwrap();
    let buffer = device.upload(&[7u32; 1000]).unwrap();
    let mut copy = device.alloc(1000).unwrap();
    drop(device);
    copy.copy_from_on(&s, &buffer).unwrap();
    drop(buffer);
    assert_eq!(copy.read().unwrap(), [7; 1000]);
}
