import { resolve } from 'node:path';
import type { LimitSpec } from '../../protocol/limits.ts';
import type { ConfigFile } from '../config-file.ts';

/** What the trail keeps of a call's arguments. */
export const argumentForms = ['redacted', 'sha256', 'shape', 'none'] as const;
export type ArgumentForm = (typeof argumentForms)[number];

const MIB = 1024 * 1024;

/** The bounds of the `[audit]` table, same names. */
export const auditLimitSpecs = {
  max_bytes: {
    default: 64 * MIB,
    min: 0,
    max: 1024 * 1024 * MIB,
    doc: 'a trail that would grow beyond this is moved aside to FILE.1, FILE.2, …; 0: never',
  },
  keep: { default: 10, min: 1, max: 100_000, doc: 'files that were moved aside; the oldest beyond it is removed' },
} as const satisfies Record<string, LimitSpec>;

/** The trail of every run on this node, as its config has it. */
export interface CompiledAudit {
  /** null: there is none unless the command line asks for it. */
  readonly file: string | null;
  readonly args: ArgumentForm;
  readonly maxBytes: number;
  readonly keep: number;
}

interface AuditTable {
  readonly file?: string | undefined;
  readonly args?: ArgumentForm | undefined;
  readonly max_bytes?: number | undefined;
  readonly keep?: number | undefined;
}

export function compileAudit(table: AuditTable | undefined, file: ConfigFile | undefined): CompiledAudit {
  return Object.freeze({
    file: table?.file === undefined ? null : resolve(file?.folder ?? '.', table.file),
    args: table?.args ?? 'redacted',
    maxBytes: table?.max_bytes ?? auditLimitSpecs.max_bytes.default,
    keep: table?.keep ?? auditLimitSpecs.keep.default,
  });
}
