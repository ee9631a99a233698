import { type Call, calls } from '../../abi/calls.ts';
import { type WitFunction, witFunctions, witPackage } from '../../abi/wit.ts';
import type { CommandArgument } from '../hostcalls/table.ts';

/** A row of the ABI table with its WIT function. */
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

/** `cchat` of `spear:host/cchat@1.0.0`; undefined for other interfaces. */
export function hostInterface(importName: string): string | undefined {
  return importName.startsWith(HOST) ? withoutVersion(importName.slice(HOST.length)) : undefined;
}

export const withoutVersion = (importName: string): string => importName.replace(/@.*$/, '');

/** The handler's argument of a command: the guest's input, or an unlimited capacity. */
export function commandArgument(command: Call['commands'][number], given: string | undefined): CommandArgument {
  if (command.arg === 'in') return given;
  return command.arg === 'out' ? Number.POSITIVE_INFINITY : undefined;
}
