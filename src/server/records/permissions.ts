import { isInheritedName } from '../../base/inherited-name.ts';

/** What somebody is to a registry. `node`: a process that runs guests. */
export const roles = ['viewer', 'submitter', 'approver', 'operator', 'admin', 'node'] as const;
export type Role = (typeof roles)[number];

export function isRole(text: string): text is Role {
  return roles.some((role) => role === text);
}

/** Who somebody is. One object stands for one credential as it is now: when that changes, another takes its place. */
export interface Identity {
  /** Unique among those who are valid; what the trail calls them. */
  readonly name: string;
  readonly roles: readonly Role[];
  /** The only one they may name; `*`: all. */
  readonly namespace: string;
  /** What a run said and was told is nobody's by role alone. */
  readonly mayReadJournals: boolean;
  /** Null: no end is known. */
  readonly expiresAtMs: number | null;
}

/** Stands for every namespace there is, and is the name of none. */
export const ALL_NAMESPACES = '*';

const namespaceShape = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** Letters, digits and dashes: it becomes part of keys and subjects. */
export function isNamespace(text: string): boolean {
  return namespaceShape.test(text) && !isInheritedName(text);
}
