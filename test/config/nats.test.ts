import { describe, expect, it } from 'vitest';
import { compileNats, queueAddress } from '../../src/config/nats.ts';

const sources = { env: { NATS: 'secret words' }, readFile: () => 'of a file' };
const nats = (document = {}) => compileNats(document, { path: 'config.toml', folder: '/etc' }, sources);
const address = (text: string, document = {}) => queueAddress(text, '--queue', nats(document));

describe('the address of a queue', () => {
  it('names servers, and as many copies as there are, up to three', () => {
    expect(address('nats://127.0.0.1:4222')).toEqual({ servers: ['127.0.0.1:4222'], tls: false, replicas: 1 });
    expect(address('tls://a:1,b:2,c:3,d:4')).toEqual({ servers: ['a:1', 'b:2', 'c:3', 'd:4'], tls: true, replicas: 3 });
    expect(address('tls://a:1', { replicas: 5 }).replicas).toBe(5);
  });

  it('beyond loopback is refused in clear, unless the config trusts the network [cluster.in-clear]', () => {
    expect(() => address('nats://127.0.0.1:4222,nats.example:4222')).toThrow(
      /nats\.example:4222 unencrypted: use tls:/,
    );
    expect(address('nats://nats.example:4222', { plain_text: true }).tls).toBe(false);
    expect(address('tls://nats.example:4222').tls).toBe(true);
  });

  it.each(['http://a:1', 'nats://', 'nats://user:word@a:1', 'nats://a', 'nats://a:1/x', 'nats://a:1,,b:2'])(
    'is not %s',
    (text) => {
      expect(() => address(text, { plain_text: true })).toThrow('--queue: expected');
    },
  );

  it('has its credentials by reference, read when they are needed', () => {
    expect(nats().creds).toBeNull();
    expect(nats({ creds: 'env:NATS' }).creds?.().reveal()).toBe('secret words');
    expect(() => nats({ creds: 'env:NOWHERE' }).creds?.()).toThrow('config.toml: nats.creds: ');
    expect(nats({ ca: 'ca.pem' }).ca).toBe('/etc/ca.pem');
  });
});
