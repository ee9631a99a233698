import { readFileSync } from 'node:fs';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { expect, it } from 'vitest';
import { ToolIndex } from '../../../../src/agent/mcp/search/tool-index.ts';
import { type NamedSearchableTool, ToolSearch } from '../../../../src/agent/mcp/search/tool-search.ts';
import type { JsonObject } from '../../../../src/base/json.ts';
import { fixture } from '../../../library/fixtures.ts';
import { npmServer, openPool, stdioRecord, tempDir } from '../client/pool-samples.ts';
import { officeQuestions, officeTools } from './office-tools.ts';

interface Question {
  readonly question: string;
  readonly tools: readonly string[];
}

const servers = { everything: ['stdio'], filesystem: [tempDir], memory: [] } as const;

/** The questions that only these servers answer, and those about the office. */
const questions: readonly Question[] = [
  ...readFileSync(fixture('tool-search/questions.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Question)
    .filter(({ tools }) => tools.every((name) => (name.split('/')[0] as string) in servers)),
  ...officeQuestions,
];

let listed: Promise<readonly NamedSearchableTool[]> | null = null;

/** Tools of real servers among those of an office; asked for once. */
function realTools(): Promise<readonly NamedSearchableTool[]> {
  listed ??= listAll();
  return listed;
}

async function listAll(): Promise<readonly NamedSearchableTool[]> {
  const { pool } = openPool();
  const lists = await Promise.all(
    Object.entries(servers).map(([id, args]) => {
      const given = args.map((arg) => (typeof arg === 'string' ? arg : arg()));
      return pool.listTools(stdioRecord(id, npmServer(id), { args: given }));
    }),
  );
  const real = lists.flatMap(({ serverId, tools }) =>
    tools.map(({ name, description, inputSchema }) => ({
      tool: name,
      name: `${serverId}_${name}`,
      record: { server_id: serverId, display_name: serverId },
      description,
      parameters: inputSchema,
    })),
  );
  return [...real, ...officeTools];
}

it('finds the right tool among the first five for 95 % of the questions [mcp.search.rank]', async () => {
  const tools = await realTools();
  expect([tools.length > 140, questions.length]).toEqual([true, 26]);
  const index = new ToolIndex(tools);
  const missed = questions.filter(({ question, tools: right }) => {
    const found = index.search(question, 5).map(({ record, tool }) => `${record.server_id}/${tool}`);
    return !found.some((name) => right.includes(name));
  });
  expect(missed.length, JSON.stringify(missed.map(({ question }) => question))).toBeLessThanOrEqual(
    questions.length * 0.05,
  );
});

it('takes 90 % fewer tokens than all definitions, an answer included [mcp.search.tokens]', async () => {
  const tools = await realTools();
  const definitions = tools.map(({ name, description, parameters }) => ({
    type: 'function',
    function: { name, description, parameters },
  }));
  const search = new ToolSearch(tools);
  const two = countTokens(JSON.stringify(search.definitions));
  const answers = questions.map(({ question }) =>
    countTokens(search.search(JSON.stringify({ query: question }), 65_536) ?? ''),
  );
  expect(two + Math.max(...answers)).toBeLessThan(countTokens(JSON.stringify(definitions)) * 0.1);
});

it('does not depend on the order in which it was asked, only on the tools and the query', async () => {
  const tools = await realTools();
  const [first, second] = [new ToolIndex(tools), new ToolIndex(tools)];
  const asked = questions.map(({ question }) => first.search(question, 5).map(({ name }) => name));
  const backwards = questions.toReversed().map(({ question }) => second.search(question, 5).map(({ name }) => name));
  expect(backwards.toReversed()).toEqual(asked);
  expect(first.search('', 5)).toEqual([]);
  expect(first.search('the of and', 5)).toEqual([]);
});

it('is not slowed down by descriptions and schemas that never end', () => {
  const endless = 'word '.repeat(200_000);
  let deep: JsonObject = { description: endless };
  for (let level = 0; level < 1_000; level++) deep = { properties: { [`p${level}`]: deep } };
  const record = { server_id: 's', display_name: 's' };
  const hostile = { tool: endless, record, description: endless, parameters: deep };
  const index = new ToolIndex([hostile, { ...hostile, tool: 'plain', description: 'reads mail' }]);
  expect(index.search('read my mail', 1).map(({ tool }) => tool)).toEqual(['plain']);
});
