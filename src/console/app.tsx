import { useCallback, useEffect, useState } from 'preact/hooks';
import type { MeJson } from '../registry/console-api.ts';
import { type StopRecord, stopTarget } from '../server/records/stop.ts';
import { type ApiError, hasToken, readMe, rememberToken, whenSignedOut } from './api.ts';
import { live, useLink, useResource, useRoute, useTick } from './hooks.ts';
import { navigation, pageOf } from './navigation.tsx';
import { Failure, Loading } from './parts.tsx';
import { endLogin, finishLogin, type LoginOptions, readLoginOptions, SignIn, setWho } from './sign-in.tsx';
import { ago, counted, UntrustedText } from './text.tsx';

/** Root component: sign-in, or the navigation and the current page. */
export function App() {
  /** Undefined until the identity was requested. */
  const [who, setMe] = useState<MeJson | null | undefined>(undefined);
  const [options, setOptions] = useState<LoginOptions | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [wasSignedOut, setSignedOut] = useState(false);
  const become = useCallback((me: MeJson | null) => {
    setWho(me);
    setMe(me);
  }, []);
  /** Resolves with the reason of a failure; null on success. */
  const enter = useCallback(async (): Promise<ApiError | null> => {
    try {
      become(await readMe());
      setError(null);
      return null;
    } catch (failed) {
      const problem = failed as ApiError;
      if (problem.status === 401) become(null);
      else setError(problem);
      return problem;
    }
  }, [become]);
  const leave = useCallback(() => {
    rememberToken(null);
    live.stop();
    become(null);
  }, [become]);
  const signOut = useCallback(async () => {
    await endLogin();
    leave();
  }, [leave]);
  const isIn = who !== null && who !== undefined;
  const begin = useCallback(async () => {
    try {
      const options = await readLoginOptions();
      setOptions(options);
      await finishLogin();
      setError(null);
      // Without a token no identity is requested: that would be a denial in the audit log.
      if (hasToken() || options.session === 'cookie' || !options.auth) await enter();
      else become(null);
    } catch (failed) {
      setError(failed as ApiError);
      if ((failed as ApiError).status !== 0) become(null);
    }
  }, [enter, become]);
  useEffect(() => {
    void begin();
  }, [begin]);
  useEffect(() => {
    if (!isIn) return;
    live.start();
    whenSignedOut(() => {
      setSignedOut(true);
      leave();
    });
    return () => {
      whenSignedOut(() => {});
      live.stop();
    };
  }, [isIn, leave]);
  if (who === undefined) {
    return (
      <main class="narrow">{error === null ? <Loading /> : <Failure error={error} again={() => void begin()} />}</main>
    );
  }
  if (who === null) {
    return <SignIn hasProvider={options?.login ?? false} wasSignedOut={wasSignedOut} enter={enter} error={error} />;
  }
  return <Shell who={who} leave={() => void signOut()} />;
}

function Shell({ who, leave }: { readonly who: MeJson; readonly leave: () => void }) {
  const route = useRoute();
  const [isOpen, setOpen] = useState(false);
  const [name = ''] = route;
  const current = name === '' ? 'overview' : name;
  useEffect(() => setOpen(false), [route.join('/')]);
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={skipToMain}>
        Skip to content
      </button>
      <nav aria-label="Pages" class={isOpen ? 'open' : ''}>
        <div class="brand">
          <span class="logo" aria-hidden="true" />
          <span>Spear</span>
          <LinkMark />
          <button
            type="button"
            class="quiet menu"
            aria-expanded={isOpen}
            aria-controls="pages"
            onClick={() => setOpen(!isOpen)}
          >
            Menu
          </button>
        </div>
        <ul id="pages">
          {navigation.map(({ path, title }) => (
            <li key={path}>
              <a href={`#/${path}`} aria-current={path === current ? 'page' : undefined}>
                {title}
              </a>
            </li>
          ))}
        </ul>
        <div class="who">
          <span>
            <UntrustedText text={who.name} chars={60} />
          </span>
          <span class="muted">
            <UntrustedText text={who.roles.join(', ')} chars={80} />
          </span>
          <button type="button" class="quiet" onClick={leave}>
            Sign out
          </button>
        </div>
      </nav>
      <main id="main" tabIndex={-1}>
        <LostNotice />
        <RotatedNotice who={who} />
        <StopNotice />
        {pageOf(route)}
      </main>
    </div>
  );
}

/** A button instead of a link, because the fragment of the address holds the page. */
function skipToMain(): void {
  document.getElementById('main')?.focus();
}

function LinkMark() {
  const { state } = useLink();
  return (
    <span class={`link-state ${state}`} role="status">
      {state}
    </span>
  );
}

/** Warns that another user rotated this user's token and has seen its text. */
function RotatedNotice({ who: { rotated_by: rotated } }: { readonly who: MeJson }) {
  if (!rotated) return null;
  return (
    <div class="notice bad" role="alert">
      <strong>
        Your token was rotated by <UntrustedText text={rotated.name} chars={80} /> on{' '}
        {new Date(rotated.at_ms).toISOString()}.
      </strong>{' '}
      That user knew its new text and could act with your name. Ask for a new token if you did not expect this.
    </div>
  );
}

/** Warns while the data may be stale. */
function LostNotice() {
  const { state, lostAtMs } = useLink();
  useTick(1_000);
  if (state !== 'lost') return null;
  return (
    <div class="notice bad lost" role="alert">
      <strong>Connection to the registry lost.</strong> The data on this page is from{' '}
      {ago(Date.now() - (lostAtMs ?? Date.now()))}. The page reconnects and updates automatically.
    </div>
  );
}

interface StopsJson {
  readonly stops: readonly (StopRecord & { readonly unconfirmed: readonly unknown[] })[];
}

/** Further stops are only counted. */
const SHOWN = 5;

/** Shows on every page what is stopped, paused or drained, and why. */
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
            <code>{stop.stop_id}</code> {stop.effect} <UntrustedText text={stopTarget(stop)} chars={200} />:{' '}
            <UntrustedText text={stop.reason} /> (<UntrustedText text={stop.created_by} chars={80} />
            {stop.unconfirmed.length > 0 ? `, not confirmed by ${counted(stop.unconfirmed.length, 'node')}` : ''})
          </li>
        ))}
      </ul>
      {stops.length > SHOWN ? <p>and {stops.length - SHOWN} more</p> : null}
    </div>
  );
}
