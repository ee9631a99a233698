import { resolve } from 'node:path';
import type { z } from 'zod';
import type { LimitSpec } from '../runtime/port/limits.ts';
import type { Secret, SecretSources } from '../server/secrets/secret.ts';
import type { SchemaKit } from './document.ts';
import { type ConfigOrigin, readKey, secretSourcesOf } from './secret-reference.ts';

/** Form in which the audit log records the arguments of a call. */
export const argumentForms = ['redacted', 'sha256', 'shape', 'none'] as const;
export type ArgumentForm = (typeof argumentForms)[number];

/** Effect on tool calls, or on writes of a registry, while the audit log cannot be written. */
const auditFailureModes = ['continue', 'refuse'] as const;
export type AuditFailureMode = (typeof auditFailureModes)[number];

const MIB = 1024 * 1024;

/** Limits of the `[audit]` table, same names. */
export const auditLimitSpecs = {
  max_bytes: {
    default: 64 * MIB,
    min: 0,
    max: 1024 * 1024 * MIB,
    doc: 'size at which the audit log is rotated to FILE.1, FILE.2, …; 0: never',
  },
  keep: { default: 10, min: 1, max: 100_000, doc: 'rotated files to retain; the oldest are removed' },
} as const satisfies Record<string, LimitSpec>;

const commonFields = ({ z, limitFields, secretReference }: SchemaKit) => ({
  ...limitFields(auditLimitSpecs),
  on_failure: z.enum(auditFailureModes).optional(),
  key: secretReference.optional(),
});

/** `[audit]` of a host: the audit log of its runs. */
export const auditTable = (kit: SchemaKit) =>
  kit.strictTable({
    file: kit.nonEmpty.optional(),
    args: kit.z.enum(argumentForms).optional(),
    ...commonFields(kit),
  });

/** `[audit]` of a registry. */
export const registryAuditTable = (kit: SchemaKit) =>
  kit.strictTable({ enabled: kit.z.boolean().optional(), file: kit.nonEmpty.optional(), ...commonFields(kit) });

export interface CompiledAudit {
  /** Null: no audit log, unless the command line names a file. */
  readonly file: string | null;
  readonly args: ArgumentForm;
  readonly maxBytes: number;
  readonly keep: number;
  readonly onFailure: AuditFailureMode;
  /** Reads the key when an audit log is opened; null: no key. @throws ConfigError */
  readonly key: (() => Secret) | null;
}

export function compileAudit(
  table: z.infer<ReturnType<typeof auditTable>> | undefined,
  file: ConfigOrigin,
  sources: SecretSources,
): CompiledAudit {
  const { key } = table ?? {};
  return Object.freeze({
    file: table?.file === undefined ? null : resolve(file?.folder ?? '.', table.file),
    args: table?.args ?? 'redacted',
    maxBytes: table?.max_bytes ?? auditLimitSpecs.max_bytes.default,
    keep: table?.keep ?? auditLimitSpecs.keep.default,
    onFailure: table?.on_failure ?? 'continue',
    key: key === undefined ? null : () => readKey(key, `${file?.path}: audit.key`, secretSourcesOf(file, sources)),
  });
}
