import { readFileSync } from 'node:fs';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { forEachServer, withServer } from '../../scripts/peers/list-servers.ts';
import { searchedServers } from '../../scripts/peers/searched-servers.ts';
import { ToolIndex } from '../../src/agent/mcp/search/tool-index.ts';
import { type NamedSearchableTool, ToolSearch } from '../../src/agent/mcp/search/tool-search.ts';
import { goal, notMeasured, type Row, type RowText, rowFrom } from '../measure/row.ts';
import type { Topic } from './topic.ts';

interface Question {
  readonly question: string;
  /** `server/tool`, each of which would do. */
  readonly tools: readonly string[];
}

const SHOWN = 5;
const MAX_ANSWER_BYTES = 65_536;

function questionsOf(name: string): Question[] {
  const file = new URL(`../../fixtures/tool-search/${name}.jsonl`, import.meta.url);
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line) as Question);
}

const tokensText: RowText = {
  topic: 'tool-search',
  name: 'the two tools and an answer',
  unit: 'tokens',
  yardstickName: 'all definitions',
  goal: { text: 'p99 at least 90 % fewer', met: ({ p99, yardstick }) => p99 <= yardstick * 0.1 },
};
const rankText: RowText = {
  topic: 'tool-search',
  name: `the right tool among the first ${SHOWN}`,
  unit: 'questions',
  yardstickName: 'all questions',
  goal: goal.ratioAtLeast(0.95),
};

const heldOutText: RowText = {
  ...rankText,
  name: `${rankText.name}, of questions that the ranking was not improved with`,
  goal: null,
};

/** What a search saves and finds, with the tools that published servers list today. */
export const topic: Topic = async () => {
  const { tools, problems } = await listed();
  if (problems.length > 0) {
    const why = `${problems.length} of ${searchedServers.length} servers could not be had from npm: ${problems.join('; ')}`;
    return [tokensText, rankText, heldOutText].map((text) => notMeasured(text, why));
  }
  const questions = questionsOf('questions');
  const { missed } = ranked(tools, questions);
  const cause = `missed: ${missed.join(' | ')}`;
  // Which of the others are missed is not shown: nobody shall improve the ranking with them.
  return [
    tokensRow(tools, questions),
    rankRow({ ...rankText, cause }, tools, questions),
    rankRow(heldOutText, tools, questionsOf('held-out')),
  ];
};

/** One that cannot be had is enough: without a network none of the others is tried. */
async function listed(): Promise<{ tools: NamedSearchableTool[]; problems: string[] }> {
  const stop = new AbortController();
  const outcomes = await forEachServer(searchedServers, stop.signal, async (server) => {
    try {
      return await withServer(
        server,
        stop.signal,
        () => {},
        (pool, record) => pool.listTools(record),
      );
    } catch (error) {
      stop.abort(new Error('not tried'));
      throw error;
    }
  });
  const problems = outcomes.flatMap((one) => ('problem' in one ? [`${one.server.id}: ${one.problem}`] : []));
  const tools = outcomes.flatMap((one) =>
    'found' in one ? one.found.tools.map((tool) => named(one.server.id, tool)) : [],
  );
  return { tools, problems };
}

const named = (
  id: string,
  {
    name,
    description,
    inputSchema,
  }: { name: string; description: string; inputSchema: NamedSearchableTool['parameters'] },
): NamedSearchableTool => ({
  tool: name,
  name: `${id}_${name}`,
  record: { server_id: id, display_name: id },
  description,
  parameters: inputSchema,
});

function tokensRow(tools: readonly NamedSearchableTool[], questions: readonly Question[]): Row {
  const definitions = tools.map(({ name, description, parameters }) => ({
    type: 'function',
    function: { name, description, parameters },
  }));
  const all = countTokens(JSON.stringify(definitions));
  const search = new ToolSearch(tools);
  const two = countTokens(JSON.stringify(search.definitions));
  const ours = questions.map(
    ({ question }) => two + countTokens(search.search(JSON.stringify({ query: question }), MAX_ANSWER_BYTES) ?? ''),
  );
  const mean = Math.round(ours.reduce((sum, tokens) => sum + tokens, 0) / ours.length) - two;
  const note = `${tools.length} tools take ${all} tokens, the two tools ${two}, an answer ${mean} on average`;
  return rowFrom(
    { ...tokensText, note },
    ours,
    questions.map(() => all),
  );
}

function rankRow(text: RowText, tools: readonly NamedSearchableTool[], questions: readonly Question[]): Row {
  const { found } = ranked(tools, questions);
  return rowFrom(text, [found], [questions.length]);
}

/** For how many questions the right tool is shown, and for which it is not. */
function ranked(tools: readonly NamedSearchableTool[], questions: readonly Question[]) {
  const index = new ToolIndex(tools);
  const missed = questions.filter(({ question, tools: right }) => {
    const shown = index.search(question, SHOWN).map(({ record, tool }) => `${record.server_id}/${tool}`);
    return !shown.some((name) => right.includes(name));
  });
  return { found: questions.length - missed.length, missed: missed.map(({ question }) => question) };
}
