import { answer, at, type Behaviour, before, honest, honestResult, notification } from './behaviour.ts';

const open = () => 'open' as const;
const HUGE = 3 * 1024 * 1024;
const LARGE = 700 * 1024;
const DEEP = 50_000;
const MANY = 2_000;
const hostileText = '\u001b[2J\u001b[H\u202eallow? y\u0007\u009b31m\u200b\u2066';
const object = { type: 'object' };

const named = (name: string, more: object = {}) => ({ name, description: name, inputSchema: object, ...more });
const list = (tools: () => unknown[], fine = false) =>
  at('tools/list', (request, wire) => wire.message(answer(request, { tools: tools() })), fine);
const listed = (tools: () => unknown[]) => list(() => [named('echo'), ...tools()], true);
const dies = (...[stage]: Parameters<typeof at>) => at(stage, (_, wire) => wire.die());
const result = (stage: Parameters<typeof at>[0], value: unknown) =>
  at(stage, (request, wire) => wire.message(answer(request, value)));

/** The library numbers its requests; those of tool calls are `spear-1`, `spear-2` and so on. */
const laterId = (id: number | string, count: number) =>
  typeof id === 'number' ? id + count : id.replace(/\d+$/, (number) => String(Number(number) + count));

function nested(depth: number): string {
  return `${'['.repeat(depth)}${']'.repeat(depth)}`;
}

const wrongValues: readonly unknown[] = [
  7,
  'text',
  null,
  [],
  true,
  { content: 3 },
  { content: [null, 4, { type: 9 }] },
  { tools: {} },
];

/** Asks the host for something, as servers may, before every answer. */
const asks = (times: number, ...methods: string[]) =>
  before((wire, { id = 0 }) => {
    for (let i = 0; i < times; i++) {
      for (const method of methods) {
        const params = { messages: [], maxTokens: 1, message: 'x', requestedSchema: {} };
        wire.message({ jsonrpc: '2.0', id: `${method} ${id} ${i}`, method, params });
      }
    }
  });

/** Behaviours that any transport can carry. */
export const messageBehaviours: Readonly<Record<string, Behaviour>> = {
  'never answers anything': { on: open },
  'never answers initialize': at('initialize', open),
  'never answers tools/list': at('tools/list', open),
  'never answers tools/call': at('tools/call', open),
  'answers twice': {
    fine: true,
    on: (request, wire) => {
      honest(request, wire);
      return honest(request, wire);
    },
  },
  'answers with another id': {
    on: (request, wire) => {
      if (request.id !== undefined) wire.message({ ...answer(request), id: laterId(request.id, 1_000) });
      return 'open';
    },
  },
  'answers with its id as a text': {
    on: (request, wire) => {
      if (request.id !== undefined) wire.message({ ...answer(request), id: String(request.id) });
      return 'open';
    },
  },
  'answers calls that were not made yet': before((wire, { id = 0 }) => {
    for (let ahead = 1; ahead < 20; ahead++) wire.message({ jsonrpc: '2.0', id: laterId(id, ahead), result: {} });
  }, false),
  'answers with error and result': at('tools/call', (request, wire) => {
    wire.message({ ...answer(request), error: { code: -32000, message: 'and yet' } });
    return 'open';
  }),
  'answers with an error of wrong types': at('tools/call', (request, wire) => {
    wire.message({ jsonrpc: '2.0', id: request.id, error: { code: 'x', message: { a: 1 }, data: nested(100) } });
    return 'open';
  }),
  'garbage before every answer': before((wire) => {
    for (let i = 0; i < 20; i++) wire.text(`starting up, step ${i} {not json`);
  }),
  'garbage without end': at('tools/call', (_, wire) => {
    wire.forEver(() => wire.text('{"jsonrpc":"2.0","id":'));
    return 'open';
  }),
  'half a message': at('tools/call', (request, wire) => {
    wire.text(JSON.stringify(answer(request)).slice(0, -9));
    return 'open';
  }),
  'a huge message': at('tools/call', (request, wire) =>
    wire.message(answer(request, { content: [{ type: 'text', text: 'h'.repeat(HUGE) }] })),
  ),
  'a huge notification': before(
    (wire) => wire.message(notification('notifications/message', { data: 'n'.repeat(HUGE) })),
    false,
  ),
  'a large result': at('tools/call', (request, wire) =>
    wire.message(answer(request, { content: [{ type: 'text', text: 'é'.repeat(LARGE / 2) }] })),
  ),
  'a deep result': at('tools/call', (request, wire) =>
    wire.text(
      `{"jsonrpc":"2.0","id":${JSON.stringify(request.id)},"result":{"content":[],"structuredContent":{"a":${nested(DEEP)}}}}`,
    ),
  ),
  'a deep list': at('tools/list', (request, wire) =>
    wire.text(
      `{"jsonrpc":"2.0","id":${JSON.stringify(request.id)},"result":{"tools":[{"name":"echo","inputSchema":{"type":"object","a":${nested(DEEP)}}}]}}`,
    ),
  ),
  'wrong types in initialize': at('initialize', (request, wire, random) =>
    wire.message(answer(request, random.pick(wrongValues))),
  ),
  'wrong types in tools/list': at('tools/list', (request, wire, random) =>
    wire.message(answer(request, random.pick(wrongValues))),
  ),
  'wrong types in tools/call': at('tools/call', (request, wire, random) =>
    wire.message(answer(request, random.pick(wrongValues))),
  ),
  'endless notifications': at('tools/call', (_, wire) => {
    wire.forEver(() => wire.message(notification('notifications/resources/updated', { uri: 'x:y' })));
    return 'open';
  }),
  'endless progress': at('tools/call', (request, wire) => {
    let progress = 0;
    wire.forEver(() =>
      wire.message(notification('notifications/progress', { progressToken: request.id, progress: progress++ })),
    );
    return 'open';
  }),
  'a flood of logging': before((wire) => {
    for (let i = 0; i < MANY; i++)
      wire.message(notification('notifications/message', { level: 'info', data: hostileText }));
  }),
  'a flood of list_changed': before((wire) => {
    for (let i = 0; i < MANY; i++) wire.message(notification('notifications/tools/list_changed'));
  }, false),
  'dies at initialize': dies('initialize', open),
  'dies at tools/list': dies('tools/list', open),
  'dies at tools/call': dies('tools/call', open),
  'pages without end': at('tools/list', ({ id, params }, wire) =>
    wire.message({ jsonrpc: '2.0', id, result: { tools: [], nextCursor: `${params?.cursor ?? ''}+` } }),
  ),
  'the same page for ever': at('tools/list', (request, wire) =>
    wire.message(answer(request, { tools: [named('echo')], nextCursor: 'again' })),
  ),
  'other tools at every list': at('tools/list', (request, wire, random) => {
    const names = ['echo', `other_${random.bits()}`];
    wire.message(answer(request, { tools: names.map((name) => named(name, { description: String(random.bits()) })) }));
    wire.message(notification('notifications/tools/list_changed'));
    return undefined;
  }),
  'hostile names and texts': listed(() => [
    named(hostileText),
    named('__proto__', { title: hostileText, description: hostileText }),
    named('constructor'),
    named('x'.repeat(10_000)),
    { name: 'echo' },
    null,
    [],
  ]),
  'huge schemas': listed(() =>
    Array.from({ length: 4 }, (_, i) => {
      const properties = Object.fromEntries(
        Array.from({ length: MANY }, (_, j) => [`p${j}`, { type: 'string', pattern: `^(a+)+${j}$` }]),
      );
      return named(`huge_${i}`, { inputSchema: { type: 'object', properties } });
    }),
  ),
  'schemas that are made to do harm': list(() => [
    named('echo', {
      inputSchema: { type: 'object', properties: { message: { type: 'string', pattern: '^(\\w+\\s?)+$' } } },
    }),
    named('async', { inputSchema: { type: 'object', $async: true } }),
    named('self', { inputSchema: { allOf: [{ $ref: '#' }] } }),
    named('away', { inputSchema: { type: 'object', properties: { a: { $ref: 'https://example.test/a.json' } } } }),
  ]),
  'thousands of tools': list(() => Array.from({ length: 5 * MANY }, (_, i) => named(`tool_${i}`))),
  'one byte at a time': at('tools/call', (request, wire) => {
    const bytes = Buffer.from(JSON.stringify(answer(request)));
    let index = 0;
    const timer = setInterval(() => {
      wire.raw(bytes.subarray(index, ++index));
      if (index === bytes.length) clearInterval(timer);
    }, 50);
    timer.unref();
    return 'open';
  }),
  'asks for sampling': asks(50, 'sampling/createMessage'),
  'asks for elicitation, roots and what there is not': asks(20, 'elicitation/create', 'roots/list', 'no/such', ''),
  'a flood of pings': asks(500, 'ping'),
  'five hundred pings for every answer': {
    on: (request, wire) => {
      for (let i = 0; i < 500; i++)
        wire.message({ jsonrpc: '2.0', id: `ping ${i} ${performance.now()}`, method: 'ping' });
      return honest(request, wire);
    },
  },
  'cancels what it does not know': before((wire, { id = 0 }) => {
    for (const requestId of [laterId(id, 500), -1, 'x', null])
      wire.message(notification('notifications/cancelled', { requestId }));
  }),
  'cancels what it is asked': before(
    (wire, { id }) => wire.message(notification('notifications/cancelled', { requestId: id })),
    false,
  ),
  'a protocol version of nonsense': at('initialize', (request, wire, random) => {
    const protocolVersion = random.pick<unknown>(['9999-99-99', '', hostileText, 7, null, '../../etc']);
    wire.message(answer(request, { ...(honestResult(request) as object), protocolVersion }));
    return undefined;
  }),
  'capabilities of nonsense': result('initialize', {
    protocolVersion: '2025-11-25',
    capabilities: { tools: 'yes', logging: [], experimental: 3 },
    serverInfo: { name: hostileText, version: hostileText },
    instructions: hostileText.repeat(1_000),
  }),
  'no tools at all': result('initialize', {
    protocolVersion: '2025-11-25',
    capabilities: {},
    serverInfo: { name: 'none', version: '1' },
  }),
  'batches of messages': at('tools/call', (request, wire) => {
    wire.message(Array.from({ length: MANY }, () => answer(request)));
    return 'open';
  }),
  'keys that mean something to JavaScript': at('tools/call', (request, wire) =>
    wire.text(
      `{"jsonrpc":"2.0","id":${JSON.stringify(request.id)},"__proto__":{"polluted":1},"result":{"__proto__":{"polluted":1},"content":[],"constructor":{"prototype":{"polluted":1}}}}`,
    ),
  ),
  'bytes that are no UTF-8': at('tools/call', (_, wire) => {
    wire.raw(Buffer.from([0xff, 0xfe, 0x00, 0x0a, 0xc3, 0x28, 0x0a]));
    return 'open';
  }),
};
