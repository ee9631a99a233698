import { approvalKind } from './approval.ts';
import { pinKind } from './pin.ts';
import { profileKind } from './profile.ts';
import type { RecordKind, StoreStamps } from './record-kind.ts';
import { serverKind } from './server.ts';
import { stopKind } from './stop-kind.ts';
import { taskKind, taskRevisionKind } from './task.ts';
import { tokenKind, tokenUseKind } from './token.ts';

/**
 * Every kind of record that a registry stores, by the name of its store. Stores, backups and migrations are built from this
 * list; a new kind is added here alone.
 */
export const recordKinds = {
  servers: serverKind,
  profiles: profileKind,
  approvals: approvalKind,
  pins: pinKind,
  tokens: tokenKind,
  tokenUses: tokenUseKind,
  tasks: taskKind,
  taskRevisions: taskRevisionKind,
  stops: stopKind,
} as const;

export type RecordStoreName = keyof typeof recordKinds;

/** The type of record in the store of this name. */
export type RecordIn<Name extends RecordStoreName> = (typeof recordKinds)[Name] extends RecordKind<infer R> ? R : never;

export type KindName = RecordKind<StoreStamps>['name'];
