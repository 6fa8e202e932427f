use super::*;

fn step(index: i64, parent: i64, operation: &str) -> Fact {
    Fact::Ended(StepRecord {
        index,
        parent,
        operation: operation.to_owned(),
        stdout: format!("out {index}").into_bytes().into(),
        digest: vec![7].into(),
        snapshot: format!("{index}.s"),
        ..StepRecord::default()
    })
}

#[test]
fn what_was_written_is_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let log = StepLog::open(folder.path()).unwrap();
    log.append_all(&[Fact::Lives("a".to_owned())], false).unwrap();
    log.append_all(&[Fact::Bound(BindRequest { session: "me".to_owned(), ..BindRequest::default() }, vec![1])], true)
        .unwrap();
    for index in 0..4 {
        log.append_all(&[step(index, log.head(), &format!("op{index}"))], true).unwrap();
    }
    log.append_all(&[Fact::Moved(1)], true).unwrap();
    log.append_all(&[Fact::Began(StepRecord { index: 4, ..StepRecord::default() })], false).unwrap();
    for log in [&log, &StepLog::open(folder.path()).unwrap()] {
        assert_eq!((log.head(), log.next()), (1, 5));
        assert_eq!(log.steps(true, 0), [0, 1]);
        assert_eq!(log.steps(false, 2), [2, 3]);
        assert_eq!(log.operation("op2"), Some((2, vec![7])));
        assert_eq!(log.operation("other"), None);
        assert_eq!(log.bound(), Some(("me".to_owned(), vec![1])));
        assert_eq!(log.begun().map(|record| record.index), Some(4));
        let (one, three) = (log.read(1).unwrap().unwrap(), log.read(3).unwrap().unwrap());
        assert_eq!((one.stdout.to_vec(), one.live, three.live), (b"out 1".to_vec(), true, false));
        assert_eq!(log.read(9).unwrap(), None);
    }
    let branch = StepLog::branch_of(folder.path(), 3).unwrap().unwrap();
    assert_eq!(branch.iter().map(|record| record.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(StepLog::branch_of(folder.path(), 9).unwrap().is_none());
    log.append_all(&[Fact::Lives("b".to_owned())], false).unwrap();
    assert_eq!(log.head(), NONE, "another executor has other files");
    log.append_all(&[Fact::Forgotten, step(7, -1, "new"), step(8, 7, "")], true).unwrap();
    assert_eq!((log.steps(true, 0), log.next()), (vec![7, 8], 9));
}

#[test]
fn a_torn_tail_is_cut_off_wherever_it_tears() {
    let folder = tempfile::tempdir().unwrap();
    let log = StepLog::open(folder.path()).unwrap();
    log.append_all(&[step(0, -1, "")], true).unwrap();
    let whole = std::fs::read(folder.path().join(FILE)).unwrap();
    log.append_all(&[step(1, 0, "")], true).unwrap();
    let both = std::fs::read(folder.path().join(FILE)).unwrap();
    for cut in whole.len()..both.len() {
        std::fs::write(folder.path().join(FILE), &both[..cut]).unwrap();
        let log = StepLog::open(folder.path()).unwrap();
        assert_eq!((log.head(), log.next()), (0, 1), "cut at {cut}");
        log.append_all(&[step(1, 0, "again")], true).unwrap();
        let log = StepLog::open(folder.path()).unwrap();
        assert_eq!(log.steps(true, 0), [0, 1]);
    }
    let mut damaged = both.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    std::fs::write(folder.path().join(FILE), damaged).unwrap();
    assert_eq!(StepLog::open(folder.path()).unwrap().steps(false, 0), [0]);
}

#[test]
fn changes_belong_to_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let log = StepLog::open(folder.path()).unwrap();
    let change =
        |path: &str, bytes: usize| Change { path: path.to_owned(), content: vec![0; bytes].into(), removed: false };
    let facts = [change("a", 1), change("b", 2)].map(|change| Fact::Changed(Some(change)));
    log.append_all(&facts, true).unwrap();
    let paths = |log: &StepLog| -> Option<Vec<String>> {
        Some(log.changes().unwrap()?.into_iter().map(|change| change.path).collect())
    };
    assert_eq!(paths(&log), Some(vec!["a".to_owned(), "b".to_owned()]));
    assert!(log.can_change(1000) && !log.can_change(CHANGES_BYTES_MAX));
    drop(log);
    let log = StepLog::open(folder.path()).unwrap();
    assert_eq!(paths(&log), Some(vec!["a".to_owned(), "b".to_owned()]), "another sidecar knows of them");
    log.append_all(&[Fact::Began(StepRecord::default())], false).unwrap();
    assert_eq!(paths(&log), Some(Vec::new()));
    log.append_all(&[Fact::Changed(None)], false).unwrap();
    assert!(paths(&log).is_none() && !log.can_change(1), "what is lost is lost until the next step");
    let bound =
        BindRequest { session: "s".to_owned(), env: [("A".to_owned(), "b".to_owned())].into(), files: Vec::new() };
    log.append_all(&[Fact::Bound(bound.clone(), vec![1])], true).unwrap();
    assert_eq!(StepLog::open(folder.path()).unwrap().bound_with().unwrap(), bound);
}
