import { systemChance } from '../../../durable/guest/chance.ts';
import { trapGuest } from '../../uncatchable.ts';
import { preview2 } from './preview2.ts';

type Served = Readonly<Record<string, unknown>>;

/** What is served, looked at and never called. */
const interfaces: Readonly<Record<string, object>> = preview2({
  args: [],
  env: {},
  output: { write: () => false },
  chance: systemChance,
  stdin: { request: () => {}, drain: () => {} },
  maxListBytes: 0,
  exit: () => trapGuest('no guest is running'),
});

const MEMBER = /^\[(method|static)\]([\w-]+)\.([\w-]+)$/;

/** Whether a served interface of WASI has a function here: `get-stdout`, `[method]pollable.block`. */
export function servesFunction(interfaceName: string, name: string): boolean {
  const served = (interfaces[interfaceName] ?? {}) as Served;
  const [, kind, resource, member] = MEMBER.exec(name) ?? [];
  if (kind === undefined || resource === undefined || member === undefined) return isFunction(served, camelCase(name));
  const owner = served[pascalCase(resource)];
  if (typeof owner !== 'function') return false;
  if (kind === 'static') return isFunction(owner as unknown as Served, camelCase(member));
  const methods = owner.prototype as Served;
  // A resource without methods is one that no guest ever gets: what it could do does not matter.
  return Object.getOwnPropertyNames(methods).length === 1 || isFunction(methods, camelCase(member));
}

const isFunction = (owner: Served, key: string) => Object.hasOwn(owner, key) && typeof owner[key] === 'function';
const camelCase = (name: string) => name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
const pascalCase = (name: string) => camelCase(`-${name}`);
