import { readFileSync } from 'node:fs';
import {
  abiVersion,
  type Call,
  calls,
  FRAME_BYTES,
  LOG_BYTES,
  MAX_STREAMS,
  NAME_BYTES,
} from '../../src/runtime/abi/calls.ts';
import { errno } from '../../src/runtime/abi/errno.ts';
import { features } from '../../src/runtime/guest/hostcalls/system.ts';

const header = new URL('../../guest-examples/c/spear.h', import.meta.url);

/** The part of the ABI that compiled guests depend on. Descriptions are left out: their wording may change. */
export function abiTable() {
  return {
    version: `${abiVersion.major}.${abiVersion.minor}`,
    calls: Object.fromEntries(
      calls.map(({ name, params, result, gives, mode, support, records, commands, errnos }: Call) => [
        name,
        { params, result, gives, mode, support, records, commands, errnos: Object.keys(errnos) },
      ]),
    ),
    errno,
    features: [...features],
    limits: { NAME_BYTES, LOG_BYTES, FRAME_BYTES, MAX_STREAMS },
    constants: headerConstants(),
  };
}

export type AbiTable = ReturnType<typeof abiTable>;

/** The numeric constants of the C SDK: they are compiled into guests. */
function headerConstants(): Readonly<Record<string, number>> {
  const defines = readFileSync(header, 'utf8').matchAll(/^#define (SPEAR_\w+) \(?(-?\d+)\)?(?=\s|$)/gm);
  return Object.fromEntries([...defines].map(([, name = '', value]) => [name, Number(value)]));
}
