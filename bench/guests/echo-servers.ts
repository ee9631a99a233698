import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const script = (name: string) => fileURLToPath(new URL(`../../fixtures/mcp-servers/${name}`, import.meta.url));

export const SERVER_ID = 'echo';
export const TOOL = 'echo';
export const MESSAGE = 'A message of sixty-four bytes, which is what people often send.!';
export const ARGUMENTS = JSON.stringify({ message: MESSAGE });

/** The server over one transport: as a record of a registry, and to a bare client of the library. */
export interface EchoServer {
  readonly record: object;
  /** What its tool answers. */
  readonly answer: string;
  readonly connect: () => Promise<Client>;
  close(): Promise<void>;
}

/** What a guest gets for an answer. */
export const resultOf = ({ answer }: EchoServer): string =>
  `{"content":[{"text":${JSON.stringify(answer)},"type":"text"}]}`;

function overStdio(answer: string, ...args: string[]): EchoServer {
  const stdio = { command: process.execPath, args };
  return {
    record: { server_id: SERVER_ID, transport: 'stdio', stdio, allowed_tools: ['*'] },
    answer,
    connect: () => connected(new StdioClientTransport({ ...stdio, stderr: 'ignore' })),
    close: async () => {},
  };
}

const everything = new URL('../../node_modules/@modelcontextprotocol/server-everything/dist/index.js', import.meta.url);

/** The reference server, built on the SDK as most are. */
export const stdioServer = overStdio(`Echo: ${MESSAGE}`, fileURLToPath(everything), 'stdio');

/** A server without a library, which takes next to no time: what is left is the client's side. */
export const bareServer = overStdio(MESSAGE, script('tiny.mjs'));

export async function openHttpServer(): Promise<EchoServer> {
  const child: ChildProcess = spawn(process.execPath, [script('http.mjs')], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = (await once(createInterface(child.stdout as Readable), 'line')) as [string];
  const url = `http://127.0.0.1:${port}/mcp`;
  return {
    record: { server_id: SERVER_ID, transport: 'streamable_http', http: { url }, allowed_tools: ['*'] },
    answer: MESSAGE,
    connect: () => connected(new StreamableHTTPClientTransport(new URL(url))),
    close: async () => {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    },
  };
}

async function connected(transport: StdioClientTransport | StreamableHTTPClientTransport): Promise<Client> {
  const client = new Client({ name: 'bench', version: '1.0.0' });
  await client.connect(transport);
  return client;
}

/** One call by the bare client; fails where it did not do what the guest's call does. */
export async function callBare(client: Client, server: EchoServer): Promise<void> {
  await callWith(client, server, { message: MESSAGE });
}

/** The same with arguments that come as text, and an answer that goes as text: what is on both sides of a thread hop. */
export async function callBareByText(client: Client, server: EchoServer, args: string): Promise<string> {
  return JSON.stringify(await callWith(client, server, JSON.parse(args)));
}

/**
 * What every governed call says of itself. A server reads it on both sides, or it would have less to do for the bare
 * client: of the reference server it takes 6 of some 30 µs.
 */
const META = { 'spear/run': 'run-mi3f0a1b-0k2x9q40z7c1dm', 'spear/attempt': 1, 'spear/ordinal': '12345' };

async function callWith(client: Client, { answer }: EchoServer, args: Record<string, unknown>) {
  const { content } = await client.callTool({ name: TOOL, arguments: args, _meta: META });
  const [block] = content as { text?: string }[];
  if (block?.text !== answer) throw new Error(`the bare client got ${JSON.stringify(content)}`);
  return { content };
}
