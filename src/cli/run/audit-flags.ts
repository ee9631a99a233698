import { type ArgumentForm, argumentForms, auditLimitSpecs } from '../../config/host/audit.ts';
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

function wholeNumber(
  flag: string,
  text: string | undefined,
  { min, max }: { readonly min: number; readonly max: number },
): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  throw new UsageError(`--${flag}: expected a whole number from ${min} to ${max}, found ${JSON.stringify(text)}`);
}
