import fc from 'fast-check';
import { type WitFunction, witFunctions } from '../../../../src/runtime/abi/wit.ts';
import { hasReturnArea } from '../../../support/guest-text.ts';
import { MAX_TEXT_BYTES, randomText } from '../core/random-texts.ts';

/** Pages of the memory of a component that random calls are made in. */
export const FLAT_PAGES = 2;
const BYTES = FLAT_PAGES * 65_536;
/** The second page is what the guest's allocator gives out. */
export const HEAP = 65_536;
/** Where results mostly go. */
export const AREA = 1024;
/** Where texts are placed that are meant as such, one after the other. */
const TEXTS = 2048;

const anyI32 = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: -2, max: 8 }) },
  { weight: 1, arbitrary: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }) },
);
const descriptor = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 1000, max: 1040 }) },
  { weight: 1, arbitrary: anyI32 },
);
const pointer = fc.oneof(
  { weight: 6, arbitrary: fc.nat({ max: BYTES - 1 }) },
  { weight: 2, arbitrary: fc.integer({ min: BYTES - 13, max: BYTES + 1 }) },
  { weight: 1, arbitrary: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }) },
);
const length = fc.oneof(
  { weight: 8, arbitrary: fc.nat({ max: 64 }) },
  { weight: 2, arbitrary: fc.constantFrom(0, 4097, 16_385, 70_000) },
  { weight: 1, arbitrary: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }) },
);
const area = fc.oneof(
  { weight: 12, arbitrary: fc.constant(AREA) },
  { weight: 1, arbitrary: pointer },
  { weight: 1, arbitrary: fc.integer({ min: AREA, max: AREA + 8 }) },
);
/** What the allocator answers: mostly what it should. */
const allocation = fc.oneof({ weight: 12, arbitrary: fc.constant('fits' as const) }, { weight: 1, arbitrary: pointer });
/** No call of these tests waits for longer. */
const shortWait = fc.constantFrom(0, 1, -5);

/** Bytes that lie in the memory before the call. */
interface Placed {
  readonly ptr: number;
  readonly bytes: Uint8Array;
}

type Param = number | Placed;

function text(fn: WitFunction, index: number): fc.Arbitrary<Param[]> {
  const meant = randomText(fn.call).map((bytes): Param[] => [
    { ptr: TEXTS + index * MAX_TEXT_BYTES, bytes },
    bytes.byteLength,
  ]);
  return fc.oneof({ weight: 2, arbitrary: meant }, { weight: 1, arbitrary: fc.tuple(pointer, length) });
}

function randomParams(fn: WitFunction): fc.Arbitrary<Param[]> {
  const params = fn.params.map(({ name, type }, index): fc.Arbitrary<Param[]> => {
    if (type === 'string' || type === 'list<u8>') return text(fn, index);
    if (name === 'ms') return fc.tuple(shortWait);
    if (name === 'timeout-ms') return fc.tuple(fc.constantFrom(0, 1));
    return fc.tuple(type === 'fd' ? descriptor : anyI32);
  });
  return fc.tuple(...params, ...(hasReturnArea(fn) ? [fc.tuple(area)] : [])).map((all) => all.flat());
}

/** A call of a component as its core module makes it: numbers, whatever they mean, and what its allocator answers. */
export interface RandomFlatCall {
  readonly fn: WitFunction;
  readonly params: readonly number[];
  readonly placed: readonly Placed[];
  readonly answer: 'fits' | number;
}

export const randomFlatCall: fc.Arbitrary<RandomFlatCall> = fc.constantFrom(...witFunctions).chain((fn) =>
  fc.tuple(randomParams(fn), allocation).map(([given, answer]) => ({
    fn,
    params: given.map((param) => (typeof param === 'number' ? param : param.ptr)),
    placed: given.filter((param) => typeof param !== 'number'),
    answer,
  })),
);
