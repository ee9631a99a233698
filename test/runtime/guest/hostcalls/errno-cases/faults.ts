import { type Call, type CallName, calls, type Param } from '../../../../../src/runtime/abi/calls.ts';
import type { TestGuest } from '../../../../support/test-guest.ts';
import type { ErrnoCase } from './errno-case.ts';

/** Ways for a `(ptr, len)` to leave the memory, which has `size` bytes. */
const badRanges: readonly [how: string, range: (size: number) => [ptr: number, length: number]][] = [
  ['ends one byte beyond the memory', (size) => [size - 7, 8]],
  ['starts beyond the memory', (size) => [size + 1, 0]],
  ['is far away', () => [0x8000_0000, 1]],
  ['is the last address', () => [0xffff_ffff, 1]],
  ['would wrap around', () => [0xffff_fff0, 0x20]],
  ['is as long as it can be', () => [0, 0xffff_ffff]],
];

const badLengthPointers: readonly [how: string, ptr: (size: number) => number][] = [
  ['is cut by the end of the memory', (size) => size - 3],
  ['is far away', () => 0x8000_0000],
  ['would wrap around', () => 0xffff_fffe],
];

/** Parameters that are fine, for what stands beside the bad one. The fd does not exist: pointers are looked at first. */
function goodParameters(guest: TestGuest, { kind }: Param): number[] {
  if (kind === 'text' || kind === 'bytes') return guest.text('ok');
  if (kind === 'out' || kind === 'arg') return guest.heap.out(16).args;
  return [1];
}

function* badParameters({ kind }: Param): Generator<[how: string, parameters: (guest: TestGuest) => number[]]> {
  const size = (guest: TestGuest) => guest.heap.memory.buffer.byteLength;
  if (kind === 'text' || kind === 'bytes') {
    for (const [how, range] of badRanges) yield [how, (guest) => range(size(guest))];
  } else if (kind === 'out' || kind === 'arg') {
    for (const [how, range] of badRanges) {
      yield [
        how,
        (guest) => {
          const [ptr, length] = range(size(guest));
          return [ptr, guest.heap.word(length)];
        },
      ];
    }
    for (const [how, ptr] of badLengthPointers) {
      yield [`length ${how}`, (guest) => [guest.heap.alloc(16), ptr(size(guest))]];
    }
  }
}

/** Every pointer of every call, each bad in turn while the others are good. Command 1 takes its argument in, 2 gives it out. */
export const faultErrnos: readonly ErrnoCase[] = (calls as readonly Call[])
  .filter(({ support }) => support !== 'absent')
  .flatMap((row) =>
    row.params.flatMap((param, bad) =>
      [...badParameters(param)].flatMap(([how, make]) =>
        commandsOf(row).map(
          (command): ErrnoCase => ({
            call: row.name as CallName,
            errno: 'EFAULT',
            when: `${param.name} ${how}${command === undefined ? '' : ` (command ${command})`}`,
            run: (guest) =>
              guest.call(
                row.name as CallName,
                ...row.params.flatMap((other, index) => {
                  if (index === bad) return make(guest);
                  return other.name === 'cmd' && command !== undefined ? [command] : goodParameters(guest, other);
                }),
              ),
          }),
        ),
      ),
    ),
  );

function commandsOf(row: Call): (number | undefined)[] {
  const withArgument = Object.entries(row.commands).filter(([, { arg }]) => arg !== 'none');
  return withArgument.length > 0 ? withArgument.map(([number]) => Number(number)) : [undefined];
}
