import { describe, expect, it } from 'vitest';
import { GuestMemory } from '../../../src/runtime/abi/memory.ts';

const PAGE = 65_536;

function attached(initial = 1): { memory: GuestMemory; wasm: WebAssembly.Memory } {
  const wasm = new WebAssembly.Memory({ initial, maximum: 10 });
  const memory = new GuestMemory();
  memory.attach(wasm);
  return { memory, wasm };
}

describe('the memory of a guest', () => {
  it('holds a range whose end is inside, the whole of it included', () => {
    const { memory } = attached();
    expect(memory.holds(0, PAGE)).toBe(true);
    expect(memory.holds(PAGE, 0)).toBe(true);
    expect(memory.holds(PAGE - 1, 1)).toBe(true);
    expect(memory.holds(PAGE - 1, 2)).toBe(false);
    expect(memory.holds(PAGE + 1, 0)).toBe(false);
    expect(memory.holds(0xffff_ffff, 0xffff_ffff)).toBe(false);
  });

  it('holds nothing before the instance is there', () => {
    const memory = new GuestMemory();
    expect(memory.holds(0, 1)).toBe(false);
    expect(memory.bytes).toHaveLength(0);
    expect(memory.words.byteLength).toBe(0);
  });

  it('may be empty, and grow from there', () => {
    const { memory, wasm } = attached(0);
    expect(memory.holds(0, 0)).toBe(true);
    expect(memory.holds(0, 1)).toBe(false);
    wasm.grow(1);
    expect(memory.holds(0, PAGE)).toBe(true);
  });

  it('is visible through every view after it has grown', () => {
    const { memory, wasm } = attached();
    memory.writeText('grüße', 8, 7);
    const stale = memory.bytes;
    wasm.grow(1);
    expect(stale).toHaveLength(0);
    expect(memory.readText(8, 7)).toBe('grüße');
    wasm.grow(1);
    memory.words.setUint32(2 * PAGE, 0xdead_beef, true);
    wasm.grow(0);
    expect(memory.bytes.readUInt32LE(2 * PAGE)).toBe(0xdead_beef);
    expect(memory.words.getUint32(2 * PAGE, true)).toBe(0xdead_beef);
    wasm.grow(1);
    expect(memory.holds(4 * PAGE - 1, 1)).toBe(true);
    wasm.grow(1);
    expect(memory.writeText('x', 5 * PAGE - 1, 1)).toBe(1);
  });

  it('reads and writes text as UTF-8', () => {
    const { memory } = attached();
    const text = 'a\0ü語🚀';
    const length = Buffer.byteLength(text);
    expect(memory.writeText(text, PAGE - length, length)).toBe(length);
    expect(memory.readText(PAGE - length, length)).toBe(text);
    expect(memory.readText(PAGE - 4, 3)).toBe('\ufffd');
    expect(memory.readText(PAGE, 0)).toBe('');
  });
});
