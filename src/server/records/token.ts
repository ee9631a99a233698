import { z } from 'zod';
import { textProblem } from '../../base/text.ts';
import { isInheritedName } from '../../base/validation.ts';
import { sha256Problem } from './field-rules.ts';
import { checked, type Frozen, optional, orDefault, parserOf, storeStamps } from './fields.ts';
import { ALL_NAMESPACES, isNamespace, roles } from './permissions.ts';
import type { RecordKind } from './record-kind.ts';

export const tokenLimits = {
  descriptionChars: 256,
  /** Texts of one token that are valid together. */
  secrets: 4,
} as const;

const nameShape = /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/;
/** Names that a registry gives to callers without a token of their own. */
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

/** One secret text that is valid for a token. The text itself is not stored. */
const secretSchema = z.object({
  /** The sha256 of the text, in hex. */
  digest: checked(sha256Problem),
  created_at_ms: time,
  /** Null: the same as for the token. */
  expires_at_ms: optional(time),
});

const tokenSchema = z.object({
  name,
  description: optional(checked((text) => textProblem(text, tokenLimits.descriptionChars))).transform(
    (text) => text ?? '',
  ),
  roles: z
    .array(z.enum(roles))
    .min(1)
    .max(roles.length)
    .transform((given) => [...new Set(given)]),
  /** The only namespace that the token may name; `*`: all. */
  namespace,
  read_journals: orDefault(z.boolean(), false),
  /** Null: the token does not expire. */
  expires_at_ms: optional(time),
  ...storeStamps,
  created_at_ms: time,
  created_by: z.string(),
  /** The user who owns the token, with one vote on approvals. Null or absent in tokens of earlier versions. */
  person: optional(z.string()),
  /** The namespace of its creator; `*`: all. Null or absent in tokens of earlier versions. */
  created_in: optional(z.string()),
  /** The last rotation by a user other than the owner, who saw the text of that time. */
  rotated_by: optional(z.object({ name: z.string(), at_ms: time })),
  /** Newest first. During a rotation the previous text stays valid beside the new one. */
  secrets: z.array(secretSchema).min(1).max(tokenLimits.secrets),
});

type TokenShape = Frozen<z.output<typeof tokenSchema>>;
type LaterField = 'person' | 'created_in' | 'rotated_by';

/** A user or a program that the registry knows by a token. */
export interface TokenRecord extends Omit<TokenShape, LaterField>, Partial<Pick<TokenShape, LaterField>> {}
export type TokenSecret = TokenRecord['secrets'][number];

export const tokenKind: RecordKind<TokenRecord> = {
  name: 'token',
  idField: 'name',
  isId: isTokenName,
  parse: parserOf(tokenSchema),
  repair: (id) => `create it again: "spear tokens revoke ${id}", then "spear tokens create ${id}"`,
};

const useSchema = z.object({ ...storeStamps, name, last_used_at_ms: time });

/** When a token was last used. Stored apart from the token, whose revision must not change with every use. */
export interface TokenUse extends Frozen<z.output<typeof useSchema>> {}

export const tokenUseKind: RecordKind<TokenUse> = {
  name: 'token_use',
  idField: 'name',
  isId: isTokenName,
  parse: parserOf(useSchema),
  repair: () => 'it is written again when the token is used',
};
