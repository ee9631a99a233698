import type { Readable, Writable } from 'node:stream';
import { connectByteClient } from './byte-client.ts';
import type { StreamAddress, StreamListener } from './stream-listener.ts';

export interface StreamListenerOptions {
  readonly address: StreamAddress;
  /** Streams of `stdio`; the caller closes them. */
  readonly stdio: () => { readonly input: Readable; readonly output: Writable };
  /** Receives protocol violations of clients. */
  readonly onProblem: (text: string) => void;
}

/** @throws Error if it cannot listen there */
export async function openStreamListener(options: StreamListenerOptions): Promise<StreamListener> {
  const { address, onProblem } = options;
  switch (address.kind) {
    case 'stdio':
      return stdioListener(options);
    case 'unix': {
      const { listenOnSocket } = await import('./socket-listener.ts');
      return listenOnSocket(address.path, onProblem);
    }
    case 'ws': {
      const { listenForWebSockets } = await import('./websocket-listener.ts');
      return listenForWebSockets(address, onProblem);
    }
  }
}

/** One client, connected from the start. */
function stdioListener({ stdio, onProblem }: StreamListenerOptions): StreamListener {
  return {
    address: null,
    attach(hub) {
      const { input, output } = stdio();
      connectByteClient(hub, input, output, (problem) => {
        input.destroy();
        if (problem !== null) onProblem(`user stream client: ${problem}`);
      });
    },
    close: async () => {},
  };
}
