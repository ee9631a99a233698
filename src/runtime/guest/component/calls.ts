import { type Call, calls } from '../../abi/calls.ts';
import { type WitFunction, witFunctions, witPackage } from '../../abi/wit.ts';
import type { CommandArgument } from '../hostcalls/table.ts';

/** A call of the table together with the shape that a component knows it in. */
export interface ComponentCall {
  readonly row: Call;
  readonly index: number;
  readonly wit: WitFunction;
}

const HOST = `${witPackage.namespace}:${witPackage.name}/`;

const rows: readonly Call[] = calls;

export const componentCalls: readonly ComponentCall[] = witFunctions.map((wit) => {
  const index = rows.findIndex(({ name }) => name === wit.call);
  return { row: rows[index] as Call, index, wit };
});

/** `cchat` of `spear:host/cchat@1.0.0`; undefined for what is not ours. */
export function hostInterface(importName: string): string | undefined {
  return importName.startsWith(HOST) ? withoutVersion(importName.slice(HOST.length)) : undefined;
}

export const withoutVersion = (importName: string): string => importName.replace(/@.*$/, '');

/** What the handler of a command gets: what the guest says, or that there is room for any answer. */
export function commandArgument(command: Call['commands'][number], given: string | undefined): CommandArgument {
  if (command.arg === 'in') return given;
  return command.arg === 'out' ? Number.POSITIVE_INFINITY : undefined;
}
