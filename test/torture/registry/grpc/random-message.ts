import { type DescField, type DescMessage, ScalarType } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import type { Random } from '../../random.ts';

/** Texts that have broken a parser, a path, a map or a page before. */
const hostileTexts = [
  '',
  '__proto__',
  'constructor',
  '../../../etc/passwd',
  '*',
  '{}',
  '{"__proto__":{"polluted":true}}',
  '[',
  '\u0000',
  '\u202etxt.exe\u001b[2J',
  '0'.repeat(32),
  'a'.repeat(64),
  'x'.repeat(70_000),
  // Words that pass the first checks.
  ...['tool', 'ready', 'connected', 'running', 'succeeded', 'stdio', 'never'],
];
const MAX_ELEMENTS = 4;
const MAX_DEPTH = 4;
/** Of a field that is left out, is there twice, or has the type of another. */
const [ONE_IN_LEFT_OUT, ONE_IN_TWICE, ONE_IN_WRONG] = [6, 15, 40];

/** The bytes of a message of this type, with hostile values. `known`: ids that exist, most of them of other callers. */
export function randomMessage(type: DescMessage, random: Random, known: readonly string[], depth = 0): Uint8Array {
  const writer = new BinaryWriter();
  for (const field of type.fields) {
    if (random.chance(ONE_IN_LEFT_OUT)) continue;
    write(field);
    if (random.chance(ONE_IN_TWICE)) write(field);
  }
  return writer.finish();

  function write(field: DescField): void {
    if (random.chance(ONE_IN_WRONG)) {
      writer.tag(field.number, random.pick([WireType.Varint, WireType.Bit64, WireType.Bit32])).uint64(random.bits());
      return;
    }
    if (field.fieldKind === 'map') {
      for (let left = random.below(MAX_ELEMENTS); left > 0; left--) {
        writer.tag(field.number, WireType.LengthDelimited).fork();
        writer.tag(1, WireType.LengthDelimited).string(text());
        if (field.mapKind === 'message') nested(2, field.message);
        else if (field.mapKind === 'scalar') scalar(2, field.scalar);
        writer.join();
      }
      return;
    }
    const times = field.fieldKind === 'list' ? random.below(MAX_ELEMENTS) : 1;
    for (let left = times; left > 0; left--) {
      if (field.message) nested(field.number, field.message);
      else if (field.enum) writer.tag(field.number, WireType.Varint).int32(random.pick([0, 1, 2, 4, 100, 7_777, -1]));
      else if (field.scalar !== undefined) scalar(field.number, field.scalar);
    }
  }

  function nested(number: number, of: DescMessage): void {
    if (depth >= MAX_DEPTH) return;
    writer.tag(number, WireType.LengthDelimited).bytes(randomMessage(of, random, known, depth + 1));
  }

  function scalar(number: number, of: ScalarType): void {
    if (of === ScalarType.STRING) writer.tag(number, WireType.LengthDelimited).string(text());
    else if (of === ScalarType.BYTES) writer.tag(number, WireType.LengthDelimited).bytes(Buffer.from(text()));
    else if (of === ScalarType.DOUBLE) writer.tag(number, WireType.Bit64).double(random.pick([0, -1, NaN, Infinity]));
    else if (of === ScalarType.BOOL) writer.tag(number, WireType.Varint).bool(random.chance(2));
    else writer.tag(number, WireType.Varint).uint64(random.pick([0n, 1n, 2n, 0xffff_ffffn, 2n ** 53n, 2n ** 64n - 1n]));
  }

  function text(): string {
    return random.pick(random.chance(2) ? known : hostileTexts);
  }
}

/** A message as it is, or with bytes changed, cut off, repeated, or under a false length or flag. */
export function randomEnvelopes(message: Uint8Array, random: Random): Buffer {
  const how = random.below(12);
  if (how === 0) return Buffer.concat([envelope(message), envelope(message)]);
  if (how === 1) return envelope(message).subarray(0, random.below(message.length + 5));
  if (how === 2) return Buffer.from(message);
  if (how === 3) return envelope(message, random.below(256));
  if (how === 4) return Buffer.concat([envelope(message).subarray(0, 1), Buffer.alloc(4, 0xff), message]);
  if (how === 5) return envelope(Buffer.concat([message, Buffer.alloc(2 * 1024 * 1024)]));
  if (how <= 7 && message.length > 0) {
    const changed = Buffer.from(message);
    for (let left = 1 + random.below(4); left > 0; left--) changed[random.below(changed.length)] = random.below(256);
    return envelope(changed);
  }
  return envelope(message);
}

function envelope(message: Uint8Array, flags = 0): Buffer {
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}
