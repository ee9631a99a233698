import { resolve } from 'node:path';
import type { LimitSpec } from '../../runtime/port/limits.ts';
import type { Secret, SecretSources } from '../../server/secrets/secret.ts';
import type { ConfigFile } from '../config-file.ts';
import { readKey } from '../read-key.ts';

/** What the trail keeps of a call's arguments. */
export const argumentForms = ['redacted', 'sha256', 'shape', 'none'] as const;
export type ArgumentForm = (typeof argumentForms)[number];

/** What happens to tool calls, or to writes of a registry, whose lines cannot be written. */
export const auditFailureModes = ['continue', 'refuse'] as const;
export type AuditFailureMode = (typeof auditFailureModes)[number];

const MIB = 1024 * 1024;

/** The bounds of the `[audit]` table, same names. */
export const auditLimitSpecs = {
  max_bytes: {
    default: 64 * MIB,
    min: 0,
    max: 1024 * 1024 * MIB,
    doc: 'size at which the audit log is rotated to FILE.1, FILE.2, …; 0: never',
  },
  keep: { default: 10, min: 1, max: 100_000, doc: 'rotated files to retain; the oldest are removed' },
} as const satisfies Record<string, LimitSpec>;

/** The trail of every run on this node, as its config has it. */
export interface CompiledAudit {
  /** null: there is none unless the command line asks for it. */
  readonly file: string | null;
  readonly args: ArgumentForm;
  readonly maxBytes: number;
  readonly keep: number;
  readonly onFailure: AuditFailureMode;
  /** Read when it is asked for, so that nobody needs it who writes no trail; null: there is none. @throws ConfigError */
  readonly key: (() => Secret) | null;
}

export interface AuditTable {
  readonly file?: string | undefined;
  readonly args?: ArgumentForm | undefined;
  readonly max_bytes?: number | undefined;
  readonly keep?: number | undefined;
  readonly on_failure?: AuditFailureMode | undefined;
  readonly key?: string | undefined;
}

export function compileAudit(
  table: AuditTable | undefined,
  file: Pick<ConfigFile, 'path' | 'folder'> | undefined,
  sources: SecretSources,
): CompiledAudit {
  const folder = file?.folder ?? '.';
  const { key } = table ?? {};
  const read = { env: sources.env, readFile: (path: string) => sources.readFile(resolve(folder, path)) };
  return Object.freeze({
    file: table?.file === undefined ? null : resolve(folder, table.file),
    args: table?.args ?? 'redacted',
    maxBytes: table?.max_bytes ?? auditLimitSpecs.max_bytes.default,
    keep: table?.keep ?? auditLimitSpecs.keep.default,
    onFailure: table?.on_failure ?? 'continue',
    key: key === undefined ? null : () => readKey(key, `${file?.path}: audit.key`, read),
  });
}
