import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { startOf } from '../../base/text.ts';
import { didYouMean } from '../../base/validation.ts';
import { patternListProblem } from '../../runtime/port/policy-layers.ts';
import { type ApprovalRule, type ToolHint, toolHints, type Verdict, verdicts } from './approval-rules.ts';
import { type ArgumentMatcher, pointerProblem } from './argument-matcher.ts';

export const MAX_APPROVAL_RULES = 256;
export const MAX_ARGUMENT_MATCHERS = 32;
const MAX_RULE_NAME_CHARS = 128;
const MAX_CONDITION_CHARS = 4_096;

const ruleKeys = ['name', 'servers', 'tools', 'arguments', 'annotations', 'verdict'] as const;
const conditionKeys = ['exists', 'equals', 'one_of', 'prefix', 'pattern', 'inside', 'at_least', 'at_most'] as const;
const matcherKeys = ['path', ...conditionKeys] as const;

/** Where in the list it is (`[2].arguments[0].path`) and what is wrong, never with a value of the rule. */
export interface RuleIssue {
  readonly path: string;
  readonly message: string;
}

export type ParsedApprovalRules =
  | { readonly ok: true; readonly rules: readonly ApprovalRule[]; readonly warnings: readonly RuleIssue[] }
  | { readonly ok: false; readonly issues: readonly RuleIssue[] };

/** Reads a list of rules from a config. One bad rule refuses all: half a policy is another policy. */
export function parseApprovalRules(value: unknown): ParsedApprovalRules {
  if (!Array.isArray(value)) return { ok: false, issues: [{ path: '', message: 'must be a list of rules' }] };
  if (value.length > MAX_APPROVAL_RULES) {
    return { ok: false, issues: [{ path: '', message: `has more than ${MAX_APPROVAL_RULES} rules` }] };
  }
  const issues: RuleIssue[] = [];
  const rules = value.map((entry, index) => new RuleReader(issues, `[${index}]`).rule(entry, index));
  if (issues.length > 0) return { ok: false, issues };
  return { ok: true, rules: Object.freeze(rules), warnings: rules.flatMap(doubts) };
}

function doubts({ verdict, annotations, servers }: ApprovalRule, index: number): RuleIssue[] {
  const believesAnybody = servers.some((pattern) => pattern.includes('*'));
  if (verdict !== 'allow' || Object.keys(annotations).length === 0 || !believesAnybody) return [];
  const message = 'allows calls because of annotations from any server; list the servers that you trust in "servers"';
  return [{ path: `[${index}]`, message }];
}

const everything: readonly string[] = Object.freeze(['*']);

class RuleReader {
  readonly #issues: RuleIssue[];
  readonly #place: string;

  constructor(issues: RuleIssue[], place: string) {
    this.#issues = issues;
    this.#place = place;
  }

  rule(entry: unknown, index: number): ApprovalRule {
    const given = this.#table('', entry, ruleKeys);
    return Object.freeze({
      name: this.#name(given.name) ?? `rule ${index + 1}`,
      servers: this.#patterns('.servers', given.servers),
      tools: this.#patterns('.tools', given.tools),
      arguments: this.#matchers(given.arguments),
      annotations: this.#hints(given.annotations),
      verdict: this.#verdict(given.verdict),
    });
  }

  #verdict(value: JsonValue | undefined): Verdict {
    const known = verdicts.find((verdict) => verdict === value);
    if (known === undefined) this.#wrong('.verdict', 'must be "allow", "deny" or "ask"');
    return known ?? 'deny';
  }

  #name(value: JsonValue | undefined): string | null {
    if (value === undefined) return null;
    if (typeof value === 'string' && value !== '' && value.length <= MAX_RULE_NAME_CHARS && !/\p{Cc}/u.test(value)) {
      return value;
    }
    this.#wrong('.name', `must be a string of 1 to ${MAX_RULE_NAME_CHARS} characters without control characters`);
    return null;
  }

  /** A list of patterns, or one alone. An empty list would never match: surely a mistake. */
  #patterns(field: string, value: JsonValue | undefined): readonly string[] {
    if (value === undefined) return everything;
    const list = typeof value === 'string' ? [value] : value;
    const problem = patternListProblem(list) ?? ((list as string[]).length === 0 ? 'must not be empty' : null);
    if (problem !== null) {
      this.#wrong(field, `${problem}; give patterns, for example ["read_*"]`);
      return everything;
    }
    return Object.freeze([...(list as string[])]);
  }

  #hints(value: JsonValue | undefined): Readonly<Partial<Record<ToolHint, boolean>>> {
    if (value === undefined) return Object.freeze({});
    const given = this.#table('.annotations', value, toolHints);
    for (const [hint, wanted] of Object.entries(given)) {
      if (typeof wanted !== 'boolean') this.#wrong(`.annotations.${hint}`, 'must be true or false');
    }
    return Object.freeze({ ...given }) as Readonly<Partial<Record<ToolHint, boolean>>>;
  }

  #matchers(value: JsonValue | undefined): readonly ArgumentMatcher[] {
    if (value === undefined) return Object.freeze([]);
    if (!Array.isArray(value) || value.length > MAX_ARGUMENT_MATCHERS) {
      const example = '[{"path": "/path", "inside": "/data"}]';
      this.#wrong('.arguments', `must be a list of at most ${MAX_ARGUMENT_MATCHERS} entries, for example ${example}`);
      return Object.freeze([]);
    }
    return Object.freeze(value.map((entry, index) => this.#matcher(`.arguments[${index}]`, entry)));
  }

  #matcher(field: string, entry: JsonValue): ArgumentMatcher {
    const given = this.#table(field, entry, matcherKeys);
    const path =
      typeof given.path === 'string' ? pointerProblem(given.path) : 'is missing; set a JSON pointer, such as "/path"';
    if (path !== null) this.#wrong(`${field}.path`, path);
    const conditions = conditionKeys.filter((key) => given[key] !== undefined);
    if (conditions.length === 0) this.#wrong(field, `has no condition: set one of ${conditionKeys.join(', ')}`);
    if (given.exists === false && conditions.length > 1)
      this.#wrong(field, '"exists": false cannot be combined with another condition');
    for (const key of conditions) {
      const problem = conditionProblem(key, given[key] as JsonValue);
      if (problem !== null) this.#wrong(`${field}.${key}`, problem);
    }
    return Object.freeze({ ...given }) as unknown as ArgumentMatcher;
  }

  #table(field: string, value: unknown, known: readonly string[]): JsonObject {
    if (!isJsonObject(value)) {
      this.#wrong(field, `must be a table with the keys ${known.join(', ')}`);
      return {};
    }
    for (const key of Object.keys(value).filter((name) => !known.includes(name))) {
      const hint = didYouMean(key, known) ?? `valid keys: ${known.join(', ')}`;
      this.#wrong(`${field}.${startOf(key, MAX_RULE_NAME_CHARS)}`, `is not a valid key; ${hint}`);
    }
    return value;
  }

  #wrong(field: string, message: string): void {
    this.#issues.push({ path: `${this.#place}${field}`, message });
  }
}

function conditionProblem(key: (typeof conditionKeys)[number], value: JsonValue): string | null {
  switch (key) {
    case 'exists':
      return typeof value === 'boolean' ? null : 'must be true or false';
    case 'equals':
      return null;
    case 'one_of':
      return Array.isArray(value) && value.length > 0 ? null : 'must be a list of values';
    case 'at_least':
    case 'at_most':
      return typeof value === 'number' ? null : 'must be a number';
    case 'inside':
      return isText(value) && value.startsWith('/') ? null : 'must be the absolute path of a directory';
    case 'prefix':
    case 'pattern':
      return isText(value) ? null : `must be a string of 1 to ${MAX_CONDITION_CHARS} characters`;
  }
}

function isText(value: JsonValue): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_CONDITION_CHARS;
}
