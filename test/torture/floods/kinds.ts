import { constants } from 'node:http2';
import type { Socket } from 'node:net';
import { newTokenText } from '../../../src/server/identity/token-text.ts';
import type { Ground } from './ground.ts';

const health = '/grpc.health.v1.Health';
const list = '/sms.McpRegistryService/ListMcpServers';
const KILOBYTE = 1024;

const get = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nhost: localhost\r\n${headers}\r\n`;

const bearer = (token: string | undefined) => `authorization: Bearer ${token}\r\n`;

/** Sends the text, and again whenever an answer begins to come. */
function asks(ground: Ground, text: string | (() => string)): (socket: Socket) => void {
  return (socket) => {
    const ask = () => {
      ground.done++;
      socket.write(typeof text === 'string' ? text : text());
    };
    socket.on('data', ask);
    ask();
  };
}

/** Writes as fast as it is taken, and reads nothing. */
function pours(ground: Ground, first: string, chunk: () => Buffer): (socket: Socket) => void {
  return (socket) => {
    const pour = () => {
      for (;;) {
        if (socket.destroyed) return;
        ground.done++;
        if (!socket.write(chunk())) return;
      }
    };
    socket.on('drain', pour);
    socket.write(first);
    pour();
  };
}

function noise(ground: Ground, bytes: number): Buffer {
  return Buffer.from(Array.from({ length: bytes }, () => ground.random.below(256)));
}

/** Every kind of flood, by name. Each goes on until its ground says that it is over. */
export const floods = {
  'idle connections': (ground) => {
    ground.sockets(1_500, ground.target.httpPort, () => {});
    ground.sockets(1_500, ground.target.grpcPort, () => {});
  },
  'connections that come and go': (ground) => {
    ground.sockets(64, ground.target.httpPort, (socket) => socket.destroy());
    ground.sockets(64, ground.target.grpcPort, (socket) => socket.destroy());
  },
  'a connection a request': (ground) => {
    ground.sockets(128, ground.target.httpPort, asks(ground, get('/healthz', 'connection: close\r\n')));
  },
  'requests for health': (ground) => {
    ground.sockets(
      300,
      ground.target.httpPort,
      asks(ground, () => get(ground.random.pick(['/healthz', '/readyz']))),
    );
  },
  'requests for metrics': (ground) => {
    ground.sockets(300, ground.target.httpPort, asks(ground, get('/metrics')));
  },
  'pipelined requests, unread': (ground) => {
    const many = Buffer.from(get('/readyz').repeat(200));
    ground.sockets(100, ground.target.httpPort, (socket) => {
      socket.pause();
      pours(ground, '', () => many)(socket);
    });
  },
  'wrong tokens': (ground) => {
    const token = () => ground.random.bits().toString(16).padStart(64, '0');
    const ask = asks(ground, () => get('/api/v1/mcp/servers', `authorization: Bearer ${token()}\r\n`));
    ground.sockets(150, ground.target.httpPort, ask);
    ground.sessions(20, (session) => {
      const next = () => {
        if (session.closed || session.destroyed) return;
        ground
          .call(session, list, { authorization: `Bearer ${token()}` })
          .once('close', next)
          .resume();
      };
      for (let index = 0; index < 5; index++) next();
    });
  },
  'slow headers': (ground) => {
    const slow = new Set<Socket>();
    const begin = (text: string) => (socket: Socket) => {
      slow.add(socket.once('close', () => slow.delete(socket)));
      socket.write(text);
    };
    ground.sockets(800, ground.target.httpPort, begin('GET /readyz HTTP/1.1\r\nhost: localhost\r\n'));
    ground.sockets(800, ground.target.grpcPort, begin('PRI * HTTP/2.0\r\n'));
    ground.every(100, () => {
      for (const socket of slow) socket.write('a: b\r\n');
      ground.done += slow.size;
    });
  },
  'large bodies': (ground) => {
    const chunk = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(64 * KILOBYTE, 'x'), Buffer.from('\r\n')]);
    const head = (path: string) =>
      `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`;
    for (const path of ['/admin/api/mcp/servers/import', '/healthz', '/nowhere']) {
      ground.sockets(
        20,
        ground.target.httpPort,
        pours(ground, head(path), () => chunk),
      );
    }
    ground.sessions(10, (session) => {
      const stream = session.request({
        ':method': 'POST',
        ':path': `${health}/Check`,
        'content-type': 'application/grpc',
      });
      stream.on('error', () => {});
      const pour = () => {
        while (!stream.destroyed && stream.write(Buffer.alloc(16 * KILOBYTE, 1))) ground.done++;
      };
      stream.on('drain', pour);
      pour();
    });
  },
  'large headers': (ground) => {
    const lines = `x: ${'y'.repeat(200)}\r\n`.repeat(70);
    ground.sockets(60, ground.target.httpPort, asks(ground, get('/readyz', lines)));
    ground.sockets(
      60,
      ground.target.httpPort,
      pours(ground, 'GET / HTTP/1.1\r\n', () => Buffer.from(lines)),
    );
    ground.sessions(20, (session) => {
      ground.call(session, `${health}/Check`, { x: 'y'.repeat(15 * KILOBYTE) }).resume();
      ground.call(session, `${health}/Check`, { x: 'y'.repeat(60 * KILOBYTE) }).resume();
    });
  },
  'garbage bytes': (ground) => {
    for (const port of [ground.target.httpPort, ground.target.grpcPort]) {
      ground.sockets(50, port, (socket) => socket.end(noise(ground, 1 + ground.random.below(300))));
      ground.sockets(20, port, (socket) =>
        socket.write(
          Buffer.concat([
            Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
            noise(ground, 1 + ground.random.below(2_000)),
          ]),
        ),
      );
    }
  },
  'upgrades and other methods': (ground) => {
    const { httpPort, grpcPort } = ground.target;
    const key = 'sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
    ground.sockets(50, httpPort, asks(ground, get('/', `connection: Upgrade\r\nupgrade: websocket\r\n${key}`)));
    const settings = 'http2-settings: AAMAAABkAAQAAP__\r\n';
    ground.sockets(
      30,
      httpPort,
      asks(ground, get('/', `connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n${settings}`)),
    );
    ground.sockets(30, httpPort, asks(ground, 'CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n'));
    ground.sockets(
      30,
      httpPort,
      asks(ground, 'PATCH /readyz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n'),
    );
    const expect = 'POST /healthz HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 9999\r\n\r\n';
    ground.sockets(30, httpPort, asks(ground, expect));
    ground.sockets(30, grpcPort, asks(ground, get('/readyz')));
  },
  'watches of health': (ground) => {
    ground.sessions(30, (session) => {
      for (let index = 0; index < 200; index++) {
        if (!session.destroyed) ground.call(session, `${health}/Watch`).resume();
      }
    });
  },
  'checks of health': (ground) => {
    ground.sessions(30, (session) => {
      const next = () => {
        if (!session.closed && !session.destroyed) ground.call(session, `${health}/Check`).once('close', next).resume();
      };
      for (let index = 0; index < 20; index++) next();
    });
  },
  'rapid reset': (ground) => {
    ground.sessions(20, (session) => {
      const burst = () => {
        if (session.closed || session.destroyed || ground.isOver) return;
        for (let index = 0; index < 50; index++)
          ground.call(session, `${health}/Check`).close(constants.NGHTTP2_CANCEL);
        setImmediate(burst);
      };
      burst();
    });
  },
  'pings and settings': (ground) => {
    ground.sessions(20, (session) => {
      const burst = () => {
        if (session.closed || session.destroyed || ground.isOver) return;
        for (let index = 0; index < 10; index++) session.ping(() => {});
        session.settings({ headerTableSize: ground.random.below(4_096) });
        ground.done += 11;
        setImmediate(burst);
      };
      burst();
    });
  },
  'lists with closed windows': (ground) => {
    const authorization = `Bearer ${ground.target.nodeToken}`;
    ground.sessions(
      6,
      (session) => {
        for (let index = 0; index < 20; index++) ground.call(session, list, { authorization });
      },
      { initialWindowSize: 0 },
    );
  },
  'TLS handshakes': (ground) => {
    ground.handshakes(100, ground.target.httpPort);
    ground.handshakes(100, ground.target.grpcPort);
  },
  'TLS handshakes that go no further': (ground) => {
    for (const port of [ground.target.httpPort, ground.target.grpcPort]) {
      ground.sockets(200, port, (socket) => socket.write(Buffer.from('1603010200010001fc0303', 'hex')));
      ground.sockets(50, port, (socket) => socket.write(noise(ground, 100)));
    }
  },
  'event streams of one caller': (ground) => {
    const events = get(`${ground.target.caller?.run}/events`, bearer(ground.target.caller?.token));
    // More than an address may have.
    ground.sockets(1_100, ground.target.httpPort, (socket) => socket.resume().write(events));
  },
  'uploads that send nothing': (ground) => {
    const path = '/v1/namespaces/default/tasks/hello/runs';
    const length = 32 * KILOBYTE * KILOBYTE;
    const head = `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${length}\r\n`;
    const upload = `${head}${bearer(ground.target.caller?.token)}\r\n`;
    ground.sockets(64, ground.target.httpPort, (socket) => socket.resume().write(upload));
  },
  'random tokens of callers': (ground) => {
    const old = () => ground.random.bits().toString(16).padStart(64, '0');
    const token = () => ground.random.pick([old, () => `spr_${old()}`, newTokenText])();
    ground.sockets(
      64,
      ground.target.httpPort,
      asks(ground, () => get('/v1/namespaces/default/runs', bearer(token()))),
    );
  },
} satisfies Record<string, (ground: Ground) => void>;

export type FloodKind = keyof typeof floods;
/** Those that only a registry with TLS minds. */
export const tlsKinds: readonly FloodKind[] = ['TLS handshakes', 'TLS handshakes that go no further'];
/** Floods of a node, some of them by a caller with a valid token. */
export const nodeKinds: readonly FloodKind[] = [
  'event streams of one caller',
  'uploads that send nothing',
  'random tokens of callers',
];
export const plainKinds = (Object.keys(floods) as FloodKind[]).filter(
  (kind) => !tlsKinds.includes(kind) && !nodeKinds.includes(kind),
);
