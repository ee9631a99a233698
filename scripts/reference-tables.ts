import { MAX_GUEST_TOOL_OUTPUT_BYTES, type NumberParam, numberParams } from '../src/abi/chat-params.ts';
import { backendLimitSpecs } from '../src/config/host/limits.ts';
import { nodeLimitSpecs } from '../src/config/host/node-limits.ts';
import { smsLimitSpecs } from '../src/config/sms/limits.ts';
import { telemetryLimitSpecs } from '../src/config/telemetry.ts';
import { poolLimitSpecs } from '../src/pool/pool-options.ts';
import { type LimitSpec, limitSpecs } from '../src/protocol/limits.ts';
import { type McpParamKey, mcpParamKeys } from '../src/protocol/mcp-params.ts';
import { budgetRanges } from '../src/protocol/record-limits.ts';
import { amount, code, table } from './markdown.ts';

/** `limits` of the task config, and `--limit`. */
export const limitsTable = (): string => specs(limitSpecs);

/** Limits of a `[backends.<name>]` table. */
export const backendLimitsTable = (): string => specs(backendLimitSpecs);

/** Limits of `[node]` of the host's config. */
export const nodeLimitsTable = (): string => specs(nodeLimitSpecs);

/** `[limits]` and `[store]` of the registry's config. */
export const smsLimitsTable = (): string => specs(smsLimitSpecs);

/** Bounds of `[telemetry]`. */
export const telemetryLimitsTable = (): string => specs(telemetryLimitSpecs);

/** Bounds of the pool that no file sets. */
export const poolLimitsTable = (): string =>
  table(
    ['name', 'value', 'what it bounds'],
    Object.entries(poolLimitSpecs).map(([name, spec]) => [
      code(name),
      amount(name.toLowerCase(), spec.default),
      spec.doc,
    ]),
  );

const budgetTexts: Readonly<Record<keyof typeof budgetRanges, string>> = {
  tool_timeout_ms: 'how long the server may work on one call',
  max_tool_timeout_ms: 'the same where the server goes on telling of progress; 0: progress puts nothing off',
  max_concurrency: 'calls at the server at one time; more wait in line',
  max_tool_output_bytes: 'the result of one call; more is cut',
  connect_timeout_ms: 'starting or connecting, the handshake included',
};

/** `[budgets]` of a record. */
export const budgetsTable = (): string =>
  specs(
    Object.fromEntries(
      Object.entries(budgetRanges).map(([name, range]) => [
        name,
        { ...range, doc: budgetTexts[name as keyof typeof budgetRanges] },
      ]),
    ),
  );

function specs(all: Readonly<Record<string, LimitSpec>>): string {
  const rows = Object.entries(all).map(([name, spec]) => [
    code(name),
    amount(name, spec.default),
    `${amount(name, spec.min)} to ${amount(name, spec.max)}`,
    spec.doc,
  ]);
  return table(['name', 'default', 'range', 'what it bounds'], rows);
}

const texts: readonly (readonly [key: string, type: string, doc: string])[] = [
  ['model', 'string', 'the model; default: that of the backend'],
  ['backend', 'string', 'a backend of the host’s config; default: that of the task, else of the host'],
  [
    'tool_choice',
    'string or object',
    'passed on with the tools, if there are any; `required` and a forced tool hold for the first request of a send',
  ],
  ['tool_arena_ptr, tool_arena_len', 'number', 'guest memory in which arguments and output of tool callbacks live'],
];

const mcpTexts: Readonly<Record<McpParamKey, readonly [type: string, doc: string]>> = {
  'mcp.enabled': ['bool', 'whether MCP tools are offered to the model; only where the task has MCP on'],
  'mcp.server_ids': ['string list', 'the servers to use, of those the task allows; empty: none'],
  'mcp.tool_allowlist': ['string list', 'patterns of tools to offer, within what the task allows'],
  'mcp.tool_denylist': ['string list', 'patterns of tools not to offer'],
  'mcp.resources': [
    'bool',
    'whether the model gets a tool that lists resources and one that reads them; default: as the task says, else no',
  ],
  'mcp.resource_allowlist': ['string list', 'patterns of URIs that may be read, within what the task allows'],
  'mcp.resource_denylist': ['string list', 'patterns of URIs that may not be read'],
  'mcp.prompt_allowlist': ['string list', 'patterns of prompts that may be got, within what the task allows'],
  'mcp.prompt_denylist': ['string list', 'patterns of prompts that may not be got'],
  'mcp.tool_naming': [
    'string',
    '`encoded` or `readable`: how tools are named to the model; default: as the task says, else `encoded`',
  ],
  'mcp.inventory': ['true or string', 'a system message that lists the tools, or a template for it'],
};

/** Keys of SET_PARAM. */
export function sessionParamsTable(): string {
  const numbers = Object.entries(numberParams).map(([key, { default: standard, max, doc }]) => {
    const most = key === ('max_tool_output_bytes' satisfies NumberParam) ? guestToolNote(key) : '';
    const alias = key === ('max_total_tool_calls' satisfies NumberParam) ? '; also `max_tool_calls`' : '';
    return [
      code(key),
      'number',
      `${doc}; default ${amount(key, standard)}, at most ${amount(key, max)}${most}${alias}`,
    ];
  });
  const others = texts.map(([key, type, doc]) => [key.split(', ').map(code).join(', '), type, doc]);
  const mcp = mcpParamKeys.map((key) => [code(key), ...mcpTexts[key]]);
  const rest = [
    [code('mcp.task_*'), '', 'the host’s own: EACCES'],
    [`${code('messages')}, ${code('tools')}`, '', 'written with their own calls: EACCES'],
    ['anything else', 'any', 'sent to the provider as it is (`temperature`, `response_format`, `stream`, …)'],
  ];
  return table(['key', 'value', 'meaning'], [...others, ...numbers, ...mcp, ...rest]);
}

function guestToolNote(key: string): string {
  return ` (${amount(key, MAX_GUEST_TOOL_OUTPUT_BYTES)} for tools of the guest)`;
}
