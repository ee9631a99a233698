import { z } from 'zod';
import { isInheritedName } from '../../base/inherited-name.ts';
import { textProblem } from '../../base/text-problem.ts';
import { ALL_NAMESPACES, isNamespace, roles } from './permissions.ts';
import type { Parsed, RecordKind } from './record-kind.ts';
import { deepFreeze } from './record-parse.ts';
import { checked, optional, readFields } from './record-schema.ts';
import { sha256Problem } from './record-values.ts';
import { type TokenRecord, type TokenUse, tokenLimits } from './token-record.ts';

const nameShape = /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/;
/** Those that a registry gives to who needs no token of its own. */
const reservedNames = /^(?:bootstrap-.*|anybody)$/;

export function isTokenName(text: string): boolean {
  return nameShape.test(text) && !reservedNames.test(text) && !isInheritedName(text);
}

const name = checked((text) =>
  isTokenName(text)
    ? null
    : 'must be 1 to 64 lowercase letters, digits, ".", "_" and "-", begin and end with a letter or digit, and not be ' +
      '"anybody" or "constructor" or begin with "bootstrap-"',
);
const namespace = checked((text) =>
  text === ALL_NAMESPACES || isNamespace(text)
    ? null
    : 'must be * or 1 to 63 lowercase letters, digits and "-", with a letter or digit at both ends, and not "constructor"',
);
const time = z.int().min(0);
const stamps = { updated_at_ms: optional(time), mod_revision: optional(time) };

/** What whoever asks for a token decides. */
const wishFields = {
  name,
  description: optional(checked((text) => textProblem(text, tokenLimits.descriptionChars))),
  roles: z.array(z.enum(roles)).min(1).max(roles.length),
  namespace,
  read_journals: optional(z.boolean()),
  expires_at_ms: optional(time),
};

const tokenSchema = z.object({
  ...wishFields,
  ...stamps,
  created_at_ms: time,
  created_by: z.string(),
  person: optional(z.string()),
  created_in: optional(z.string()),
  rotated_by: optional(z.object({ name: z.string(), at_ms: time })),
  secrets: z
    .array(z.object({ digest: checked(sha256Problem), created_at_ms: time, expires_at_ms: optional(time) }))
    .min(1)
    .max(tokenLimits.secrets),
});

const useSchema = z.object({ ...stamps, name, last_used_at_ms: time });

export const tokenKind: RecordKind<TokenRecord> = {
  name: 'token',
  idField: 'name',
  isId: isTokenName,
  parse: parseToken,
  mending: (id) => `create it again: "spear tokens revoke ${id}", then "spear tokens create ${id}"`,
};

export const tokenUseKind: RecordKind<TokenUse> = {
  name: 'token_use',
  idField: 'name',
  isId: isTokenName,
  parse: parseUse,
  mending: () => 'it is written again when the token is used',
};

function parseToken(input: unknown): Parsed<TokenRecord> {
  const read = readFields(tokenSchema, input);
  if ('issues' in read) return { ok: false, issues: read.issues };
  const { shape } = read;
  const record: TokenRecord = {
    ...shape,
    description: shape.description ?? '',
    roles: [...new Set(shape.roles)],
    read_journals: shape.read_journals ?? false,
    updated_at_ms: shape.updated_at_ms ?? 0,
    mod_revision: shape.mod_revision ?? 0,
  };
  return { ok: true, record: deepFreeze(record), warnings: [] };
}

function parseUse(input: unknown): Parsed<TokenUse> {
  const read = readFields(useSchema, input);
  if ('issues' in read) return { ok: false, issues: read.issues };
  const { updated_at_ms, mod_revision, ...use } = read.shape;
  const record = { ...use, updated_at_ms: updated_at_ms ?? 0, mod_revision: mod_revision ?? 0 };
  return { ok: true, record: Object.freeze(record), warnings: [] };
}
