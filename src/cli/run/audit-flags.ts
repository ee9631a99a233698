import { type ArgumentForm, argumentForms, auditLimitSpecs } from '../../config/host/audit.ts';
import { wholeNumber } from '../parse-flags.ts';
import { UsageError } from '../usage-error.ts';

/** The flags of a command that writes a trail. */
export interface AuditFlags {
  /** A file, or `-` for standard output. */
  readonly audit: string | undefined;
  readonly auditArgs: ArgumentForm | undefined;
  readonly auditMaxBytes: number | undefined;
  readonly auditKeep: number | undefined;
}

export const auditOptions = {
  audit: { type: 'string' },
  'audit-args': { type: 'string' },
  'audit-max-bytes': { type: 'string' },
  'audit-keep': { type: 'string' },
} as const;

type AuditValues = { readonly [Name in keyof typeof auditOptions]?: string | undefined };

/** @throws UsageError */
export function parseAuditFlags(values: AuditValues): AuditFlags {
  return {
    audit: values.audit,
    auditArgs: argumentForm(values['audit-args']),
    auditMaxBytes: wholeNumber('audit-max-bytes', values['audit-max-bytes'], auditLimitSpecs.max_bytes),
    auditKeep: wholeNumber('audit-keep', values['audit-keep'], auditLimitSpecs.keep),
  };
}

function argumentForm(text: string | undefined): ArgumentForm | undefined {
  const form = argumentForms.find((known) => known === text);
  if (text === undefined || form !== undefined) return form;
  throw new UsageError(`--audit-args: expected one of ${argumentForms.join(', ')}, found ${JSON.stringify(text)}`);
}
