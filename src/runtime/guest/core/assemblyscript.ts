import type { GuestMemory } from '../../abi/memory.ts';
import type { Output } from '../hostcalls/output.ts';
import { throwUncatchable } from '../uncatchable.ts';

const MAX_TEXT_BYTES = 4096;

/** `env.abort`, which AssemblyScript imports unless told otherwise: it says where, then traps. */
export function abortImport(memory: GuestMemory, output: Output) {
  return (message: number, file: number, line: number, column: number): never => {
    const where = `${readString(memory, file) || 'unknown file'}:${line}:${column}`;
    output.write('stderr', Buffer.from(`abort: ${readString(memory, message) || 'no message'} at ${where}\n`));
    return throwUncatchable();
  };
}

/** An AssemblyScript string is UTF-16 with its byte length four bytes before it. */
function readString(memory: GuestMemory, at: number): string {
  const ptr = at >>> 0;
  if (ptr < 4 || !memory.holds(ptr - 4, 4)) return '';
  const length = Math.min(memory.words.getUint32(ptr - 4, true), MAX_TEXT_BYTES);
  return memory.holds(ptr, length) ? memory.bytes.toString('utf16le', ptr, ptr + length) : '';
}
