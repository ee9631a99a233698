import { poolLimitSpecs } from '../src/agent/mcp/client/pool-options.ts';
import { backendLimitSpecs, nodeLimitSpecs, registryLimitSpecs } from '../src/config/limits.ts';
import { telemetryLimitSpecs } from '../src/config/telemetry.ts';
import { MAX_GUEST_TOOL_OUTPUT_BYTES, type NumberParam, numberParams } from '../src/runtime/abi/chat-params.ts';
import { type LimitSpec, limitSpecs } from '../src/runtime/port/limits.ts';
import { type McpParamKey, mcpParamKeys } from '../src/runtime/port/mcp-params.ts';
import { budgetRanges } from '../src/server/records/field-rules.ts';
import { amount, code, table } from './markdown.ts';

/** `limits` of the task config, and `--limit`. */
export const limitsTable = (): string => specs(limitSpecs);

/** Limits of a `[backends.<name>]` table. */
export const backendLimitsTable = (): string => specs(backendLimitSpecs);

/** Limits of `[node]` of the host's config. */
export const nodeLimitsTable = (): string => specs(nodeLimitSpecs);

/** `[limits]` and `[store]` of the registry's config. */
export const smsLimitsTable = (): string => specs(registryLimitSpecs);

/** Bounds of `[telemetry]`. */
export const telemetryLimitsTable = (): string => specs(telemetryLimitSpecs);

/** Bounds of the pool that no file sets. */
export const poolLimitsTable = (): string =>
  table(
    ['name', 'value', 'description'],
    Object.entries(poolLimitSpecs).map(([name, spec]) => [
      code(name),
      amount(name.toLowerCase(), spec.default),
      spec.doc,
    ]),
  );

const budgetTexts: Readonly<Record<keyof typeof budgetRanges, string>> = {
  tool_timeout_ms: 'maximum duration of one call at the server',
  max_tool_timeout_ms:
    'maximum duration of a call whose server reports progress; 0: progress does not extend `tool_timeout_ms`',
  max_concurrency: 'concurrent calls at the server; further calls are queued',
  max_tool_output_bytes: 'size of the result of one call; larger results are truncated',
  connect_timeout_ms: 'duration of starting or connecting, including the handshake',
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
  return table(['name', 'default', 'range', 'description'], rows);
}

const texts: readonly (readonly [key: string, type: string, doc: string])[] = [
  ['model', 'string', 'the model; default: the model of the backend'],
  ['backend', 'string', 'a backend of the host config; default: the backend of the task, else of the host'],
  [
    'tool_choice',
    'string or object',
    'forwarded with the tools, if there are any; `required` and a forced tool apply to the first request of a send',
  ],
  ['tool_arena_ptr, tool_arena_len', 'number', 'guest memory for the arguments and the output of tool callbacks'],
];

const mcpTexts: Readonly<Record<McpParamKey, readonly [type: string, doc: string]>> = {
  'mcp.enabled': ['bool', 'whether MCP tools are offered to the model; only if the task turns MCP on'],
  'mcp.server_ids': ['string list', 'the servers to use, of those the task allows; empty: none'],
  'mcp.tool_allowlist': ['string list', 'patterns of tools to offer, within what the task allows'],
  'mcp.tool_denylist': ['string list', 'patterns of tools not to offer'],
  'mcp.resources': [
    'bool',
    'whether the model gets a tool that lists resources and one that reads them; default: the value of the task, else false',
  ],
  'mcp.resource_allowlist': ['string list', 'patterns of URIs that may be read, within what the task allows'],
  'mcp.resource_denylist': ['string list', 'patterns of URIs that may not be read'],
  'mcp.prompt_allowlist': ['string list', 'patterns of prompts that may be fetched, within what the task allows'],
  'mcp.prompt_denylist': ['string list', 'patterns of prompts that may not be fetched'],
  'mcp.tool_naming': [
    'string',
    '`encoded` or `readable`: how tool names are shown to the model; default: the value of the task, else `encoded`',
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
    [code('mcp.task_*'), '', 'reserved for the host: EACCES'],
    [`${code('messages')}, ${code('tools')}`, '', 'set with separate hostcalls: EACCES'],
    ['any other key', 'any', 'forwarded to the provider unchanged (`temperature`, `response_format`, `stream`, …)'],
  ];
  return table(['key', 'value', 'meaning'], [...others, ...numbers, ...mcp, ...rest]);
}

function guestToolNote(key: string): string {
  return ` (${amount(key, MAX_GUEST_TOOL_OUTPUT_BYTES)} for tools of the guest)`;
}
