import type { InjectedTools } from '../../src/agent/chat/injected-tools.ts';
import { type McpHost, openMcpHost } from '../guests/mcp-host.ts';
import { interleave } from '../measure/rounds.ts';
import { goal, type Row, rowFrom } from '../measure/row.ts';
import type { Topic } from './topic.ts';

const SERVERS = 10;
const TOOLS = 50;
const never = new AbortController().signal;
const NS_PER_US = 1_000;

/** What a send gets before its first request; warm, so every server's list is known. */
export const topic: Topic = async (effort) => {
  const host = openMcpHost(SERVERS, TOOLS);
  try {
    const { definitions } = await inject(host);
    if (definitions.length !== SERVERS * TOOLS) throw new Error(`${definitions.length} tools were injected`);
    const sides = [
      { operations: 1, run: () => structuredClone(definitions) },
      { operations: 1, run: () => inject(host) },
    ];
    const [[yardstick = [], ours = []] = []] = await interleave([sides], { rounds: effort.of(41, 201), warmUp: 30 });
    return [row(ours, yardstick), await rebuiltRow(host)];
  } finally {
    await host.close();
  }
};

function inject(host: McpHost): Promise<InjectedTools> {
  const request = { session: 'chat-1', params: [], guestTools: new Set<string>(), maxOutputBytes: 65_536 };
  return host.guest.inject(request, never);
}

function row(ours: readonly number[], yardstick: readonly number[]): Row {
  const us = (samples: readonly number[]) => samples.map((ns) => ns / NS_PER_US);
  const name = `${SERVERS} servers × ${TOOLS} tools, warm`;
  const text = { topic: 'injection', name, unit: 'µs', yardstickName: 'structuredClone of the result' } as const;
  return rowFrom({ ...text, goal: goal.ratioAtMost(2) }, us(ours), us(yardstick));
}

/** Definitions that two sends share were not made twice. */
async function rebuiltRow(host: McpHost): Promise<Row> {
  const [first, second] = [await inject(host), await inject(host)];
  const rebuilt = second.definitions.filter((definition, index) => definition !== first.definitions[index]).length;
  return {
    topic: 'injection',
    name: 'definitions rebuilt when nothing changed',
    unit: 'definitions',
    median: rebuilt,
    p99: rebuilt,
    yardstick: first.definitions.length,
    yardstickName: 'all that are injected',
    ratio: rebuilt / first.definitions.length,
    ratioLow: rebuilt / first.definitions.length,
    ratioHigh: rebuilt / first.definitions.length,
    goal: 'none',
    ok: rebuilt === 0,
    note: '',
  };
}
