import type { Topic } from './topic.ts';

export interface TopicEntry {
  readonly name: string;
  /** What is measured, in a line. */
  readonly title: string;
  /** Loaded in the topic's own process, and nowhere else. */
  readonly load: () => Promise<Topic>;
}

const entry = (name: string, title: string, load: () => Promise<{ topic: Topic }>): TopicEntry => ({
  name,
  title,
  load: async () => (await load()).topic,
});

/** The topics in the order of the report. */
export const topics: readonly TopicEntry[] = [
  entry('hostcalls', 'local hostcalls of a core module', () => import('./hostcalls.ts')),
  entry('waiting', 'calls that may wait and need not', () => import('./waiting.ts')),
  entry('component', 'local hostcalls of a component', () => import('./component.ts')),
  entry('async', 'a call that goes to the host thread and back', () => import('./async.ts')),
  entry('mcp', 'a governed MCP call from a guest', () => import('./mcp.ts')),
  entry('tool-loop', 'what the tool loop adds to a turn of the model', () => import('./tool-loop.ts')),
  entry('injection', 'the tools of ten servers for one send', () => import('./injection.ts')),
  entry('tool-search', 'what a search for tools saves and finds', () => import('./tool-search.ts')),
  entry('journal', 'what a journal costs, and judging recorded runs', () => import('./journal.ts')),
  entry('start', 'spear-run from its start to its end', () => import('./start.ts')),
  entry('density', 'guests that wait in one process', () => import('./density.ts')),
  entry('node-queue', 'runs of a node through its queue', () => import('./node-queue.ts')),
  entry('node', 'many guests on one thread, and runs that are parked', () => import('./node.ts')),
  entry('cluster', 'runs of nodes that share NATS', () => import('./cluster.ts')),
  entry('registry', 'a change on its way to the nodes', () => import('./registry.ts')),
  entry('revocation', 'a tool that is taken away, on a hundred nodes', () => import('./revocation.ts')),
  entry('peers', 'the same string hostcall elsewhere', () => import('./peers.ts')),
  entry('growth', 'how costs grow with what a guest holds', () => import('./growth.ts')),
];
