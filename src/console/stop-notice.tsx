import { type StopRecord, stopTarget } from '../server/records/stop.ts';
import { useResource } from './hooks.ts';
import { counted } from './numbers.ts';
import { Told } from './text.tsx';

interface StopsJson {
  readonly stops: readonly (StopRecord & { readonly unconfirmed: readonly unknown[] })[];
}

/** Stops beyond this are counted. */
const SHOWN = 5;

/** Says on every page what is stopped, paused or drained, and why. */
export function StopNotice() {
  const { value } = useResource<StopsJson>('/admin/api/stops', ['stops', 'nodes']);
  const stops = value?.stops ?? [];
  if (stops.length === 0) return null;
  const isBad = stops.some(({ effect }) => effect === 'stop' || effect === 'cancel');
  return (
    <div class={`notice ${isBad ? 'bad' : 'warn'} stops`} role="alert">
      <strong>{isBad ? 'Stopped by an operator' : 'Paused by an operator'}</strong>
      <ul>
        {stops.slice(0, SHOWN).map((stop) => (
          <li key={stop.stop_id}>
            <code>{stop.stop_id}</code> {stop.effect} <Told text={stopTarget(stop)} chars={200} />:{' '}
            <Told text={stop.reason} /> (<Told text={stop.created_by} chars={80} />
            {stop.unconfirmed.length > 0 ? `, not confirmed by ${counted(stop.unconfirmed.length, 'node')}` : ''})
          </li>
        ))}
      </ul>
      {stops.length > SHOWN ? <p>and {stops.length - SHOWN} more</p> : null}
    </div>
  );
}
