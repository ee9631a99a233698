import fc from 'fast-check';
import { type Call, type CallName, calls, type Param } from '../../../../src/runtime/abi/calls.ts';
import { randomText } from './random-texts.ts';

/** Pages of the memory of a guest that random calls are made in. */
export const MEMORY_PAGES = 2;
const MEMORY_BYTES = MEMORY_PAGES * 65_536;

/** Where an argument that belongs to one call alone is placed. */
const SCRATCH_PTR = 0x1_8000;
const SCRATCH_STEP = 0x800;

const descriptorKinds = ['session', 'response', 'epoll', 'server', 'call'] as const;
export type DescriptorKind = (typeof descriptorKinds)[number];

/** One of the descriptors that the guest has opened so far, or a number that is none. */
export type RandomFd = { readonly recent: number; readonly kind: DescriptorKind } | { readonly fd: number };

/** A range, and what is written there before the call. */
export interface RandomRange {
  readonly ptr: number;
  readonly length: number;
  readonly text: Uint8Array | null;
}

/** A buffer whose capacity is written to `lengthPtr` before the call, if there is one. */
export interface RandomBuffer {
  readonly ptr: number;
  readonly lengthPtr: number;
  readonly capacity: number | null;
  readonly text: Uint8Array | null;
}

export type RandomArgument =
  | RandomFd
  | { readonly i32: number }
  | { readonly range: RandomRange }
  | { readonly buffer: RandomBuffer };

export interface RandomCall {
  readonly name: CallName;
  readonly args: readonly RandomArgument[];
}

const anyI32 = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: -2, max: 16 }) },
  { weight: 1, arbitrary: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }) },
);

/** i32 parameters whose interesting values are few. */
const i32ByName: Readonly<Record<string, fc.Arbitrary<number>>> = {
  'cchat_ctl cmd': fc.oneof({ weight: 8, arbitrary: fc.constantFrom(1, 1, 2) }, { weight: 1, arbitrary: anyI32 }),
  cmd: fc.oneof({ weight: 8, arbitrary: fc.integer({ min: 1, max: 6 }) }, { weight: 1, arbitrary: anyI32 }),
  op: fc.oneof({ weight: 8, arbitrary: fc.integer({ min: 1, max: 3 }) }, { weight: 1, arbitrary: anyI32 }),
  flags: fc.oneof({ weight: 8, arbitrary: fc.integer({ min: 0, max: 7 }) }, { weight: 1, arbitrary: anyI32 }),
  ms: fc.oneof(fc.constantFrom(0, -1, -(2 ** 31)), fc.constant(1)),
  timeout_ms: fc.oneof(
    { weight: 40, arbitrary: fc.constantFrom(0, 1) },
    { weight: 1, arbitrary: fc.constantFrom(-1, 2 ** 31 - 1) },
  ),
};

/** What a call can do something with. */
function suitableKinds(call: string, param: string): readonly DescriptorKind[] {
  if (param === 'epfd') return ['epoll'];
  if (call === 'cchat_recv') return ['response'];
  if (call === 'mcp_result') return ['call'];
  if (call === 'spear_fd_cancel') return ['response', 'call'];
  if (call.startsWith('mcp_')) return ['server'];
  return call.startsWith('cchat_') ? ['session'] : descriptorKinds;
}

function fd(call: string, param: string): fc.Arbitrary<RandomFd> {
  const recent = (kinds: readonly DescriptorKind[]) =>
    fc.tuple(fc.nat({ max: 3 }), fc.constantFrom(...kinds)).map(([recent, kind]) => ({ recent, kind }));
  return fc.oneof(
    { weight: 10, arbitrary: recent(suitableKinds(call, param)) },
    { weight: 2, arbitrary: recent(descriptorKinds) },
    { weight: 1, arbitrary: fc.integer({ min: 990, max: 1100 }).map((fd) => ({ fd })) },
    { weight: 1, arbitrary: anyI32.map((fd) => ({ fd })) },
  );
}

const pointer = fc.oneof(
  { weight: 6, arbitrary: fc.nat({ max: MEMORY_BYTES - 1 }) },
  { weight: 2, arbitrary: fc.integer({ min: MEMORY_BYTES - 9, max: MEMORY_BYTES + 1 }) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 0xffff_ffff }) },
  { weight: 1, arbitrary: fc.constantFrom(0, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff) },
);

const length = fc.oneof(
  { weight: 6, arbitrary: fc.nat({ max: 64 }) },
  { weight: 2, arbitrary: fc.constantFrom(0, 7, 8, 1024, 4095, 4097, 16_384, 16_385) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 0xffff_ffff }) },
);

const scratch = (index: number) => SCRATCH_PTR + index * SCRATCH_STEP;

function range(text: fc.Arbitrary<Uint8Array>, index: number): fc.Arbitrary<RandomArgument> {
  return fc.oneof(
    {
      weight: 5,
      arbitrary: text.map((bytes) => ({ range: { ptr: scratch(index), length: bytes.byteLength, text: bytes } })),
    },
    {
      weight: 2,
      arbitrary: fc.tuple(pointer, length).map(([ptr, size]) => ({ range: { ptr, length: size, text: null } })),
    },
  );
}

function buffer(text: fc.Arbitrary<Uint8Array>, index: number): fc.Arbitrary<RandomArgument> {
  const slot = fc.nat({ max: 255 }).map((step) => scratch(index) + SCRATCH_STEP - 1024 + step);
  return fc.oneof(
    {
      weight: 4,
      arbitrary: fc
        .tuple(pointer, slot, length)
        .map(([ptr, lengthPtr, capacity]) => ({ buffer: { ptr, lengthPtr, capacity, text: null } })),
    },
    {
      weight: 3,
      arbitrary: fc.tuple(text, slot).map(([bytes, lengthPtr]) => ({
        buffer: { ptr: scratch(index + 4), lengthPtr, capacity: bytes.byteLength, text: bytes },
      })),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(pointer, pointer)
        .map(([ptr, lengthPtr]) => ({ buffer: { ptr, lengthPtr, capacity: null, text: null } })),
    },
  );
}

function argument(call: string, { name, kind }: Param, index: number): fc.Arbitrary<RandomArgument> {
  if (kind === 'fd') return fd(call, name);
  if (kind === 'text' || kind === 'bytes') return range(randomText(call), index);
  if (kind === 'out' || kind === 'arg') return buffer(randomText(call), index);
  return (i32ByName[`${call} ${name}`] ?? i32ByName[name] ?? anyI32).map((i32) => ({ i32 }));
}

const callOf = (row: Call): fc.Arbitrary<RandomCall> =>
  fc
    .tuple(...row.params.map((param, index) => argument(row.name, param, index)))
    .map((args) => ({ name: row.name as CallName, args }));

/** Any call with any arguments; those that open things come often enough for the others to find something open. */
export const randomCall: fc.Arbitrary<RandomCall> = fc.oneof(
  ...(calls as readonly Call[]).map((row) => ({
    weight: weightOf(row.name),
    arbitrary: callOf(row),
  })),
);

function weightOf(name: string): number {
  if (name.endsWith('_close')) return 1;
  if (/resource|prompt/.test(name)) return 2; // the same handlers as tools have
  return /^cchat_|^mcp_|epoll|fd_/.test(name) ? 6 : 1;
}
