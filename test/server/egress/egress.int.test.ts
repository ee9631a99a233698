import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buildConnector } from 'undici';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type IpAddress, parseAddress, parseBlock } from '../../../src/base/ip-block.ts';
import { EgressDenied, EgressRules, REGISTRY_ADDRESSES, specialKind } from '../../../src/server/egress/egress.ts';
import { checkedLookup, guardedConnector, type Lookup } from '../../../src/server/egress/http-client.ts';
import { call, fixture, httpRecord, openPool, startHttp, textOf } from '../../agent/mcp/client/pool-samples.ts';

const strict = new EgressRules({ allowAddresses: REGISTRY_ADDRESSES });
/** The host of a url, as the parser of urls leaves it. */
const hostOf = (text: string) => new URL(`http://${text}/`).hostname;
const addressOf = (host: string) => host.replace(/^\[|\]$/g, '');

describe('an address', () => {
  it.each([
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['127.1', 'loopback'],
    ['2130706433', 'loopback'],
    ['0x7f000001', 'loopback'],
    ['0x7f.1', 'loopback'],
    ['0177.0.0.1', 'loopback'],
    ['017700000001', 'loopback'],
    ['[::1]', 'loopback'],
    ['[0:0:0:0:0:0:0:1]', 'loopback'],
    ['[::ffff:127.0.0.1]', 'loopback'],
    ['[::ffff:7f00:1]', 'loopback'],
    ['[64:ff9b::127.0.0.1]', 'loopback'],
    ['0.0.0.0', 'unspecified'],
    ['0', 'unspecified'],
    ['0.1.2.3', 'unspecified'],
    ['[::]', 'unspecified'],
    ['[::ffff:0.0.0.0]', 'unspecified'],
    ['10.0.0.1', 'private'],
    ['10.255.255.255', 'private'],
    ['172.16.0.1', 'private'],
    ['172.31.255.255', 'private'],
    ['192.168.1.1', 'private'],
    ['[fc00::1]', 'private'],
    ['[fdff:ffff::1]', 'private'],
    ['[fec0::1]', 'private'],
    ['[::ffff:10.0.0.1]', 'private'],
    ['[64:ff9b::a00:1]', 'private'],
    ['169.254.169.254', 'link-local'],
    ['0xa9fea9fe', 'link-local'],
    ['[::ffff:169.254.169.254]', 'link-local'],
    ['[fe80::1]', 'link-local'],
    ['[febf::1]', 'link-local'],
    ['100.64.0.1', 'shared'],
    ['100.127.255.255', 'shared'],
    ['224.0.0.1', 'multicast'],
    ['239.255.255.255', 'multicast'],
    ['[ff02::1]', 'multicast'],
    ['255.255.255.255', 'reserved'],
    ['240.0.0.1', 'reserved'],
    ['192.0.2.1', 'reserved'],
    ['198.18.0.1', 'reserved'],
    ['198.51.100.7', 'reserved'],
    ['203.0.113.7', 'reserved'],
    ['192.0.0.8', 'reserved'],
    ['[2001:db8::1]', 'reserved'],
    ['[2001::1]', 'reserved'],
    ['[2002:7f00:1::]', 'reserved'],
    ['[::127.0.0.1]', 'reserved'],
    ['[100::1]', 'reserved'],
    ['[4000::1]', 'reserved'],
    ['8.8.8.8', null],
    ['172.15.255.255', null],
    ['172.32.0.1', null],
    ['100.63.255.255', null],
    ['100.128.0.1', null],
    ['169.253.255.255', null],
    ['[2606:4700::1111]', null],
    ['[::ffff:8.8.8.8]', null],
    ['[64:ff9b::8.8.8.8]', null],
  ])('written %s is %s [egress.addresses]', (written, kind) => {
    const address = addressOf(hostOf(written));
    expect(specialKind(parseAddress(address) as IpAddress)).toBe(kind);
    const denial = strict.addressDenial(hostOf(written), address);
    if (kind === null) expect(denial).toBeNull();
    else {
      expect(denial).toBeInstanceOf(EgressDenied);
      expect(denial?.message).toContain(address);
      expect(denial?.message).toContain(`${kind} address`);
      expect(denial?.message).toContain('egress.allow_addresses');
    }
  });

  it.each([
    ['loopback', ['127.0.0.1', '::1', '::ffff:127.0.0.1'], ['10.0.0.1', '0.0.0.0', '169.254.169.254']],
    ['private', ['10.1.2.3', '192.168.0.1', 'fd00::1'], ['127.0.0.1', '100.64.0.1', 'fe80::1']],
    ['10.1.0.0/16', ['10.1.0.1', '10.1.255.255', '::ffff:10.1.2.3'], ['10.2.0.1', '10.0.255.255']],
    ['192.168.0.0/25', ['192.168.0.127'], ['192.168.0.128']],
    ['169.254.169.254', ['169.254.169.254'], ['169.254.169.253']],
    ['::ffff:10.0.0.0/104', ['10.200.0.1'], ['11.0.0.1', '127.0.0.1']],
    ['fd00:1::/33', ['fd00:1:7fff::1'], ['fd00:1:8000::1']],
    ['0.0.0.0/0', ['127.0.0.1', '10.0.0.1'], ['::1']],
  ])('listed as %s is the only one allowed [egress.addresses]', (listed, inside, outside) => {
    const rules = new EgressRules({ allowAddresses: [listed] });
    for (const address of inside) expect(rules.addressDenial('x.test', address), address).toBeNull();
    for (const address of outside) {
      const special = specialKind(parseAddress(address) as IpAddress) !== null;
      expect(rules.addressDenial('x.test', address) !== null, address).toBe(special);
    }
  });

  it.each([
    '',
    'loop',
    '10.0.0.0/33',
    '10.0.0.0/-1',
    '10.0.0/8',
    '::/129',
    '1.2.3.4/8/8',
    '::ffff:10.0.0.0/8',
    'fe80::1%eth0/',
  ])('that is invalid is rejected: %j [egress.addresses]', (text) => {
    expect(parseBlock(text)).toBeNull();
    expect(() => new EgressRules({ allowAddresses: [text] })).toThrow(RangeError);
  });

  it('that cannot be parsed is denied [egress.addresses]', () => {
    for (const address of ['', 'x', '1.2.3', '::g']) expect(strict.addressDenial('h', address)).not.toBeNull();
  });
});

describe('a host', () => {
  it.each([
    [
      ['*.example.com'],
      ['a.example.com', 'a.b.EXAMPLE.com', 'a.example.com.'],
      ['example.com', 'example.com.evil.test'],
    ],
    [
      ['mcp.example.com', '10.0.?.1'],
      ['mcp.example.com', '10.0.7.1'],
      ['xmcp.example.com', '10.0.77.1'],
    ],
    [['::1'], ['[::1]'], ['[::2]']],
    [['*'], ['anything.test'], []],
    [[], [], ['anything.test']],
  ])('of %j is matched by its name', (allowHosts, inside, outside) => {
    const rules = new EgressRules({ allowHosts });
    for (const host of inside) expect(rules.hostDenial(host), host).toBeNull();
    for (const host of outside) expect(rules.hostDenial(host)?.message, host).toContain('egress.allow_hosts');
  });
});

describe('a connection', () => {
  type Answer = { address: string; family: number };
  const v4 = (address: string): Answer => ({ address, family: 4 });
  const answering =
    (...rounds: Answer[][]): Lookup =>
    (_hostname, _options, callback) =>
      callback(null, rounds.length > 1 ? (rounds.shift() as Answer[]) : (rounds[0] as Answer[]));

  function look(lookup: Lookup, rules = strict, all = true): Promise<unknown> {
    return new Promise((resolve, reject) => {
      checkedLookup(rules, lookup)('host.test', { all }, (error, addresses) =>
        error === null ? resolve(addresses) : reject(error),
      );
    });
  }

  it('is made only to the allowed addresses of a name [egress.rebinding]', async () => {
    const mixed = answering([v4('127.0.0.1'), v4('8.8.8.8'), { address: '::1', family: 6 }]);
    expect(await look(mixed)).toEqual([v4('8.8.8.8')]);
    expect(await look(mixed, strict, false)).toBe('8.8.8.8');
    await expect(look(answering([v4('169.254.169.254'), v4('10.0.0.1')]))).rejects.toThrow(
      'host "host.test" resolves to 169.254.169.254, which is a link-local address',
    );
    await expect(look(answering([]))).rejects.toThrow('did not resolve to an address');
    const failing: Lookup = (_h, _o, callback) => callback(Object.assign(new Error('no'), { code: 'EAI_AGAIN' }), []);
    await expect(look(failing)).rejects.toThrow('no');
  });

  async function listening(listener: RequestListener): Promise<number> {
    const server = createServer(listener).listen(0, '127.0.0.1');
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  }

  function open(rules: EgressRules, hostname: string, port: number, lookup?: Lookup): Promise<string> {
    const connect = guardedConnector(rules, buildConnector, { timeout: 10_000, ...(lookup ? { lookup } : {}) });
    return new Promise((resolve, reject) => {
      connect({ hostname, host: hostname, protocol: 'http:', port: String(port) }, (error, socket) => {
        if (error !== null) return reject(error);
        socket.destroy();
        resolve('connected');
      });
    });
  }

  it('is denied in every notation of the address, and no request is sent [egress.rebinding]', async () => {
    let requests = 0;
    const port = await listening((_request, response) => {
      requests += 1;
      response.end();
    });
    for (const host of ['127.0.0.1', hostOf('2130706433'), hostOf('[::ffff:127.0.0.1]'), '0.0.0.0']) {
      await expect(open(strict, host, port), host).rejects.toThrow('egress.allow_addresses');
    }
    await expect(open(strict, 'inner.test', port, answering([v4('127.0.0.1')]))).rejects.toThrow(
      'host "inner.test" resolves to 127.0.0.1, which is a loopback address',
    );
    expect(requests).toBe(0);
    expect(await open(new EgressRules(), 'inner.test', port, answering([v4('127.0.0.1')]))).toBe('connected');
  });

  it('is made to the address that was checked; a second DNS response has no effect [egress.rebinding]', async () => {
    const port = await listening((_request, response) => response.end());
    // Allowed at first, then the machine's own services: the one answer that is asked for is the one that is used.
    let asked = 0;
    const rebinding: Lookup = (_hostname, _options, callback) => {
      asked += 1;
      callback(null, [v4(asked === 1 ? '127.0.0.2' : '127.0.0.1')]);
    };
    const rules = new EgressRules({ allowAddresses: ['127.0.0.2'] });
    await expect(open(rules, 'rebind.test', port, rebinding)).rejects.toThrow('ECONNREFUSED');
    await expect(open(rules, 'rebind.test', port, rebinding)).rejects.toThrow('resolves to 127.0.0.1');
    expect(asked).toBe(2);
  });

  it('whose socket has another remote address is closed before anything is sent [egress.rebinding]', async () => {
    let requests = 0;
    const port = await listening(() => {
      requests += 1;
    });
    // A connector that ignores the lookup it is given, as one that resolves names by itself would.
    const careless: typeof buildConnector = (options) => {
      const connect = buildConnector({ ...options, lookup: undefined });
      return (target, callback) => connect({ ...target, hostname: '127.0.0.1' }, callback);
    };
    const connect = guardedConnector(strict, careless, { timeout: 10_000 });
    const failure = await new Promise<Error | null>((resolve) => {
      connect({ hostname: 'public.test', host: 'public.test', protocol: 'http:', port: String(port) }, (...[error]) =>
        resolve(error),
      );
    });
    expect(failure?.message).toContain('host "public.test" resolves to 127.0.0.1');
    expect(requests).toBe(0);
  });
});

describe('an HTTP server of MCP', () => {
  const transports = [
    ['streamable_http', '/mcp'],
    ['http_sse_legacy', '/sse'],
  ] as const;

  it.each(transports)('on this machine is reachable over %s if loopback is listed', async (transport, path) => {
    const { url } = await startHttp(fixture('http.mjs'), []);
    const { pool } = openPool({ egress: { allowAddresses: ['127.0.0.1'] } });
    expect(await textOf(call(pool, httpRecord('web', transport, url(path)), 'echo', { message: 'hi' }))).toBe('hi');
  });

  it.each(transports)('at a denied address is a policy error over %s, without a retry', async (transport, path) => {
    const { url, port } = await startHttp(fixture('http.mjs'), []);
    const { pool, log } = openPool({ egress: { allowAddresses: [] } });
    const outcome = await call(pool, httpRecord('web', transport, url(path)), 'echo', { message: 'hi' });
    expect(outcome).toMatchObject({ dispatched: false, error: { code: 'mcp_policy_denied', retryable: false } });
    expect(outcome.error?.message).toContain('127.0.0.1 is a loopback address');
    expect(outcome.error?.message).toContain('egress.allow_addresses');
    expect(log.filter(({ event }) => event === 'connect_failed')).toHaveLength(1);
    const named = openPool({ egress: { allowHosts: ['*.example.com'] } });
    const other = await call(named.pool, httpRecord('web', transport, `http://localhost:${port}${path}`), 'echo');
    expect(other.error).toMatchObject({ code: 'mcp_policy_denied' });
    expect(other.error?.message).toContain('host "localhost" is not allowed');
  });

  it('that redirects to a denied address is not followed [egress.redirect]', async () => {
    const reached: string[] = [];
    const inner = createServer((request, response) => {
      reached.push(String(request.headers.authorization));
      response.end();
    }).listen(0, '127.0.0.2');
    await once(inner, 'listening');
    const target = `http://127.0.0.2:${(inner.address() as AddressInfo).port}/latest/meta-data`;
    const outer = createServer((_request, response) => response.writeHead(307, { location: target }).end());
    outer.listen(0, '127.0.0.1');
    await once(outer, 'listening');
    onTestFinished(() => {
      for (const server of [inner, outer]) {
        server.closeAllConnections();
        server.close();
      }
    });
    const { pool } = openPool({ egress: { allowAddresses: ['127.0.0.1'] } });
    const url = `http://127.0.0.1:${(outer.address() as AddressInfo).port}/mcp`;
    for (const transport of ['streamable_http', 'http_sse_legacy'] as const) {
      const outcome = await call(pool, httpRecord(transport, transport, url), 'echo');
      expect(outcome.ok).toBe(false);
      expect(outcome.error?.message).toContain('HTTP 307, a redirect that is not followed');
    }
    expect(reached).toEqual([]);
  });

  it('that is reached by a redirect is checked as well [egress.redirect]', async () => {
    const { createHttpClient } = await import('../../../src/server/egress/http-client.ts');
    const client = await createHttpClient(new EgressRules({ allowAddresses: ['127.0.0.1'] }));
    onTestFinished(() => client.close());
    const server = createServer((request, response) =>
      request.url === '/local'
        ? response.end('here')
        : response.writeHead(307, { location: request.url === '/in' ? '/local' : 'http://169.254.169.254/' }).end(),
    ).listen(0, '127.0.0.1');
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    await once(server, 'listening');
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await (await client.fetch(`${base}/in`)).text()).toBe('here');
    const error = await client.fetch(`${base}/out`).then(
      () => null,
      (reason: Error) => reason,
    );
    expect((error?.cause as Error | undefined)?.message).toContain('169.254.169.254 is a link-local address');
  });

  it('is never reached through a proxy of the environment', async () => {
    let proxied = 0;
    const proxy = createServer((_request, response) => {
      proxied += 1;
      response.end();
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void proxy.close());
    await once(proxy, 'listening');
    const address = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const before = { ...process.env };
    Object.assign(process.env, { HTTP_PROXY: address, http_proxy: address, NO_PROXY: '', NODE_USE_ENV_PROXY: '1' });
    onTestFinished(() => {
      process.env = before;
    });
    const { url } = await startHttp(fixture('http.mjs'), []);
    const { pool } = openPool();
    expect(await textOf(call(pool, httpRecord('web', 'streamable_http', url('/mcp')), 'echo', { message: 'hi' }))).toBe(
      'hi',
    );
    expect(proxied).toBe(0);
  });
});
