import type { NatsConnection, RequestOptions } from '@nats-io/transport-node';

const ANSWER_MS = 1_000;

/**
 * What was asked over a connection that is lost is not answered, and what is asked while there is none is not sent: the
 * client would wait out the time of each such request. Here the former fail at once, so that whoever is patient asks
 * again, and the latter are sent when there is a connection, if that comes within their time.
 */
export function failWithConnection(nc: NatsConnection): void {
  const underway = new Set<(error: Error) => void>();
  let back: PromiseWithResolvers<void> | null = null;
  const request = nc.request.bind(nc);
  const isBack = async (there: Promise<void>, ms: number) => {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error(`no connection to NATS for ${ms} ms`)), ms);
    await Promise.race([there, late.promise]).finally(() => clearTimeout(timer));
  };
  nc.request = async (subject, data, options?: RequestOptions) => {
    if (back !== null) await isBack(back.promise, options?.timeout ?? ANSWER_MS);
    return new Promise((resolve, reject) => {
      underway.add(reject);
      const over = () => underway.delete(reject);
      request(subject, data, options).then(resolve, reject).finally(over);
    });
  };
  const follow = async () => {
    for await (const { type } of nc.status()) {
      if (type === 'reconnect') {
        back?.resolve();
        back = null;
      } else if (type === 'disconnect') {
        back ??= Promise.withResolvers();
        for (const reject of underway) reject(new Error('the connection to NATS was lost'));
      }
    }
  };
  void follow();
}
